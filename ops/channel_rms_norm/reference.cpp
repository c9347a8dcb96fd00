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

// One place of one batch.
class Place {
   public:
    Place(const ChannelRmsNorm& op, std::int64_t batch, std::int64_t place)
        : op_(op), batch_(batch), place_(place), root_(std::sqrt(static_cast<double>(op.x.dim(1)))) {
        length_ = op.length ? load_element(op.length.dtype, op.length.data, at(op.length, 0)) : norm();
    }

    void store(std::int64_t c, Oracle& oracle) const {
        double error = 0, y = op_.rounding == Rounding::eager ? stepped(c) : once(c, error);
        if (op_.activation == ChannelRmsNorm::Activation::silu) apply_silu(y, error);
        oracle.store(op_.out, at(op_.out, c), y, std::isfinite(y) && std::isfinite(error) ? error : 0);
    }

   private:
    std::int64_t at(const Tensor& t, std::int64_t c) const {
        return batch_ * t.stride[0] + c * t.stride[1] + place_ * t.stride[2];
    }
    double x(std::int64_t c) const { return load_element(op_.x.dtype, op_.x.data, at(op_.x, c)); }
    static double of(const Tensor& t, std::int64_t c, double absent) {
        return t ? load_element(t.dtype, t.data, c) : absent;
    }
    double norm() const {
        double squares = 0;
        for (std::int64_t c = 0; c < op_.x.dim(1); ++c) squares += x(c) * x(c);
        const double length = std::sqrt(squares);
        return std::isnan(length) ? length : std::max(length, static_cast<double>(op_.eps));
    }
    double once(std::int64_t c, double& error) const {
        const double n = x(c) * (root_ / length_) * of(op_.weight, c, 1), y = n + of(op_.bias, c, 0);
        error = kEps32 * ((24 + static_cast<double>(op_.x.dim(1)) / 32) * std::fabs(n) + 2 * std::fabs(y));
        return y;
    }
    double stepped(std::int64_t c) const {
        const auto step = [&](double y) { return round_to(op_.out.dtype, round_to(DType::fp32, y)); };
        double y = step(step(x(c) / length_) * round_to(DType::fp32, root_));
        if (op_.weight) y = step(y * of(op_.weight, c, 1));
        return op_.bias ? step(y + of(op_.bias, c, 0)) : y;
    }

    const ChannelRmsNorm& op_;
    std::int64_t batch_, place_;
    double root_, length_ = 0;
};

void reference(const ChannelRmsNorm& op, Oracle& oracle) {
    for (std::int64_t batch = 0; batch < op.x.dim(0); ++batch) {
        for (std::int64_t place = 0; place < op.x.dim(2); ++place) {
            const Place here(op, batch, place);
            for (std::int64_t c = 0; c < op.x.dim(1); ++c) here.store(c, oracle);
        }
    }
}

const RegisterReference<ChannelRmsNorm> kReference{reference};

}  // namespace
}  // namespace weft
