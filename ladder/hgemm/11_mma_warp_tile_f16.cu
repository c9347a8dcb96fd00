// A product of matrices on tensor cores, 32 by 32 outputs a warp.
//
// Idea        As in sgemm, the answer to too many loads is a larger tile: two fragments of A and four of B give eight
//             mma. Four warps share the slices of a block, so that each element is brought once for 64 outputs.
// Change      More mma a warp, and more warps a block (warp_tile.cuh).
// Prediction  Many times 10. The rows of the slices of B are 128 bytes apart: the eight rows that ldmatrix reads at
//             once lie in the same four banks, and are served one by one.
#include "ladder/hgemm/warp_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm_by_slices<0>, kBlockTile, kBlockTile, dim3(kBlockThreads), op,
                       context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
