// Counts, by one atomic addition an element.
//
// Idea        Threads that meet the same value must not lose each other's additions: an atomic reads, adds and writes
//             as one step. Integer additions give the same counts in any order.
// Change      The first rung.
// Prediction  Good for values that spread over many bins. Where all are the same, every addition waits for the one
//             before it, at one place in L2.
#include "ladder/histogram/count.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void histogram(const int* x, std::int64_t n, int* counts, int bins) {
    const std::int64_t i = thread_in_grid();
    if (i < n) count(counts, bins, x[i]);
}

const RegisterRung<Histogram> kRung{decline_histogram, +[](const Histogram& op, Context& context) {
                                        launch_histogram(kRung.name(), histogram, 1, op, context);
                                    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
