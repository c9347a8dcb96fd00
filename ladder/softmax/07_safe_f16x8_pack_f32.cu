// Softmax of halves, eight elements a load.
//
// Idea        One vector of 16 bytes for eight elements.
// Change      Vectors of eight.
// Prediction  The top of the three-pass rungs.
#include "ladder/softmax/safe.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp16); },
    +[](const Softmax& op, Context& context) {
        launch_softmax(kRung.name(), softmax<__half, 8>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
