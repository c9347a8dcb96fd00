// Counts, four elements a thread.
//
// Idea        One load of 16 bytes for four elements. The additions are as many as before.
// Change      Vectors of four; what is left at the end is counted one by one (a load of a whole vector there would
//             read what is not there).
// Prediction  Hardly faster than 01: the loads were not the bound, the atomics are.
#include "ladder/histogram/count.h"

namespace weft::inline WEFT_TARGET {
namespace {

__global__ void histogram(const int* x, std::int64_t n, int* counts, int bins) {
    const std::int64_t i = 4 * thread_in_grid();
    if (i + 4 <= n) {
        const int4 v = *reinterpret_cast<const int4*>(x + i);
        count(counts, bins, v.x);
        count(counts, bins, v.y);
        count(counts, bins, v.z);
        count(counts, bins, v.w);
    } else {
        for (std::int64_t j = i; j < n; ++j) count(counts, bins, x[j]);
    }
}

const RegisterRung<Histogram> kRung{decline_histogram, +[](const Histogram& op, Context& context) {
                                        launch_histogram(kRung.name(), histogram, 4, op, context);
                                    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
