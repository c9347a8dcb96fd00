// A matrix of halves times a vector, as many lanes a row as it has vectors.
//
// Idea        As 07: 16 halves are two loads of 16 bytes, so two lanes have a row.
// Change      Eight halves a load, where 05 has four and 06 has one.
// Prediction  Beyond 90 % of what the card reads for long rows; at 16 columns, where a matrix of 32 MiB gives 2 MiB of
//             results, close to it.
#include "ladder/gemv/rows.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Gemm> kRung{
    +[](const Gemm& op, const DeviceInfo&) { return decline_gemv(op, DType::fp16, 8); },
    +[](const Gemm& op, Context& context) { launch_by_length<__half>(kRung.name(), op, context); }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
