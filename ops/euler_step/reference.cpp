// euler_step's executable specification.
#include <cmath>

#include "ops/euler_step/euler_step.h"
#include "weft/op.h"

namespace weft {
namespace {

// A number that fp32 computed, and what it may be off by; or one that was rounded as PyTorch would, which is exact.
struct Computed {
    double value = 0, error = 0;
};

class Chain {
   public:
    explicit Chain(const EulerStep& op) : eager_(op.rounding == Rounding::eager), dtype_(op.velocity.dtype) {}

    Computed sum(Computed a, Computed b) const { return rounded(a.value + b.value, a.error + b.error); }
    Computed product(float factor, Computed a) const {
        const double f = factor;
        return rounded(f * a.value, std::fabs(f) * a.error);
    }

   private:
    Computed rounded(double value, double error) const {
        if (eager_) return {round_to(dtype_, round_to(DType::fp32, value)), 0};
        return {value, error + kEps32 * std::fabs(value)};
    }
    bool eager_;
    DType dtype_;
};

void reference(const EulerStep& op, Oracle& oracle) {
    const Rows out = *fold_rows(op.out);
    const Chain chain(op);
    for (std::int64_t row = 0; row < out.rows; ++row) {
        for (std::int64_t i = 0; i < out.dim; ++i) {
            const auto of = [&](const Tensor& t) {
                return Computed{load_element(t.dtype, t.data, row * fold_rows(t)->stride + i), 0};
            };
            Computed v = of(op.velocity);
            if (op.conditional) {
                const Computed minus{-v.value, 0};
                v = chain.sum(v, chain.product(op.guidance, chain.sum(of(op.conditional), minus)));
            }
            Computed y = chain.product(op.step, v);
            if (op.sample) {
                const double value = of(op.sample).value + y.value;
                y = op.rounding == Rounding::eager ? Computed{round_to(DType::fp32, value), 0}
                                                   : Computed{value, y.error + kEps32 * std::fabs(value)};
            }
            const bool finite = std::isfinite(y.value) && std::isfinite(y.error);
            oracle.store(op.out, row * out.stride + i, y.value, finite ? y.error : 0);
        }
    }
}

const RegisterReference<EulerStep> kReference{reference};

}  // namespace
}  // namespace weft
