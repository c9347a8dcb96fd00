// channel_rms_norm's executable specification.
#include <algorithm>
#include <cmath>

#include "ops/channel_rms_norm/channel_rms_norm.h"
#include "weft/op.h"

namespace weft {
namespace {

// What SiLU makes of y, and of what y is off by.
void apply_silu(double& y, double& error) {
    const double t = y, relative = 16 + 5 * std::fabs(t) / (1 + std::exp(t));
    y = t / (1 + std::exp(-t));
    error = 1.13 * error + kEps32 * relative * std::fabs(y) + 0x1p-125 * std::fabs(t) + 0x1p-148;
}

void reference(const ChannelRmsNorm& op, Oracle& oracle) {
    const std::int64_t channels = op.x.dim(1);
    const auto of = [](const Tensor& t, std::int64_t c, double absent) {
        return t ? load_element(t.dtype, t.data, c) : absent;
    };
    for (std::int64_t batch = 0; batch < op.x.dim(0); ++batch) {
        for (std::int64_t place = 0; place < op.x.dim(2); ++place) {
            const auto at = [&](const Tensor& t, std::int64_t c) {
                return batch * t.stride[0] + c * t.stride[1] + place * t.stride[2];
            };
            double squares = 0;
            for (std::int64_t c = 0; c < channels; ++c) {
                const double value = load_element(op.x.dtype, op.x.data, at(op.x, c));
                squares += value * value;
            }
            const double length = std::sqrt(squares);
            const double factor =
                std::sqrt(static_cast<double>(channels)) /
                (std::isnan(length) ? length : std::max(length, static_cast<double>(op.eps)));
            for (std::int64_t c = 0; c < channels; ++c) {
                const double n =
                    load_element(op.x.dtype, op.x.data, at(op.x, c)) * factor * of(op.weight, c, 1);
                double y = n + of(op.bias, c, 0);
                double error =
                    kEps32 * ((24 + static_cast<double>(channels) / 32) * std::fabs(n) + 2 * std::fabs(y));
                if (op.activation == ChannelRmsNorm::Activation::silu) apply_silu(y, error);
                oracle.store(op.out, at(op.out, c), y, std::isfinite(y) && std::isfinite(error) ? error : 0);
            }
        }
    }
}

const RegisterReference<ChannelRmsNorm> kReference{reference};

}  // namespace
}  // namespace weft
