// A matrix times a vector, as many lanes a row as it has vectors.
//
// Idea        What keeps memory busy is how many bytes are asked for at a time. A row of 16 floats is four loads of 16
//             bytes: four lanes take it, so that every lane of a warp loads as much as a lane can, and each takes four
//             rows, whose loads do not wait for one another. Long rows give a lane several loads of their own.
// Change      Groups of 2 to 32 lanes by the length of a row; several rows a group; each lane of a group stores one.
// Prediction  Beyond 90 % of what the card reads, at 16 columns too, where 03 asks for 4 bytes a lane.
#include "ladder/gemv/rows.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp32, 4); },
    +[](const Gemm& op, Context& context) { launch_by_length<float>(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
