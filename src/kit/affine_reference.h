// The executable specification of the ops over kit/affine.cuh.
#pragma once

#include <cmath>

#include "kit/row_reference.h"

namespace weft {

struct ReferenceAffine {
    ReferenceRows x, bias, scale, shift, out;
    double offset = 0;
    bool eager = false;

    // out = (x + bias) · (offset + scale) + shift, every fp32 operation with its own half ulp; eager: each rounded to
    // out's dtype, and exact.
    void store(std::int64_t rows, std::int64_t dim, Oracle& oracle) const {
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t i = 0; i < dim; ++i) element(row, i, oracle);
        }
    }

   private:
    double step(double exact) const {
        if (!eager) return exact;
        return round_to(out.tensor().dtype, static_cast<double>(static_cast<float>(exact)));
    }
    void element(std::int64_t row, std::int64_t i, Oracle& oracle) const {
        double y = x.at(row, i), error = 0;
        if (bias) {
            y = step(y + bias.at(row, i));
            error = kEps32 * std::fabs(y);
        }
        if (scale) {
            const double factor = offset == 0 ? scale.at(row, i) : step(offset + scale.at(row, i));
            const double factor_error = offset == 0 ? 0 : kEps32 * std::fabs(factor);
            error = error * (std::fabs(factor) + factor_error) + std::fabs(y) * factor_error;
            y = step(y * factor);
            error += kEps32 * std::fabs(y);
        }
        if (shift) {
            y = step(y + shift.at(row, i));
            error += kEps32 * std::fabs(y);
        }
        oracle.store(out.tensor(), out.place(row, i), y, eager || !std::isfinite(y) ? 0 : error);
    }
};

}  // namespace weft
