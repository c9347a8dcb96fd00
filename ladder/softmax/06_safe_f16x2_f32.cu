// Softmax of halves, two elements a load.
//
// Idea        Pairs, each a register of 32 bits.
// Change      Vectors of two.
// Prediction  Half as many loads as 05.
#include "ladder/softmax/safe.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp16); },
    +[](const Softmax& op, Context& context) {
        launch_softmax(kRung.name(), softmax<__half, 2>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
