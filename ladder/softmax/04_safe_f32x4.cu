// Softmax with the maximum subtracted, four elements a load.
//
// Idea        Vectors of four in all three passes. A lambda goes over the row, so that what is done with an element is
//             written once a pass.
// Change      Vectors of four (safe.cuh).
// Prediction  Nearer to the bandwidth of where the row lies.
#include "ladder/softmax/safe.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

const RegisterRung<Softmax> kRung{
    +[](const Softmax& op, const DeviceInfo&) { return decline_softmax(op, DType::fp32); },
    +[](const Softmax& op, Context& context) {
        launch_softmax(kRung.name(), softmax<float, 4>, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
