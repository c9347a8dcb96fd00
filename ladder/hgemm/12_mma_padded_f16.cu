// A product of matrices on tensor cores, without bank conflicts.
//
// Idea        Eight elements behind each row move the next by 16 bytes: the eight rows of 16 bytes that ldmatrix reads
//             at once then lie in all 32 banks.
// Change      Padding: one number.
// Prediction  ldmatrix in one turn in place of eight, for a sixth more shared memory; ladder/transpose/07 has the way
//             that costs none.
#include "ladder/hgemm/warp_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_product(op, DType::fp16, DType::fp16); },
    +[](const Gemm& op, Context& context) {
        launch_product(kRung.name(), gemm_by_slices<8>, kBlockTile, kBlockTile, dim3(kBlockThreads), op,
                       context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
