// What the references of row ops share: the row that is read, and what is made of it before it is stored.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kit/narrow_reference.h"
#include "weft/oracle.h"
#include "weft/rounding.h"
#include "weft/row_map.h"

namespace weft {

// An operand beside x, which may be absent, by the rows of x.
class ReferenceRows {
   public:
    ReferenceRows(const Tensor& tensor, const Tensor& x, const Tensor& picks = {}) : tensor_(tensor) {
        if (!tensor) return;
        if (picks) {
            picks_ = picks;
            map_.single = tensor.dim(-1) == 1 && x.dim(-1) != 1;
        } else {
            map_ = *map_rows(tensor, x);
        }
    }
    explicit operator bool() const { return static_cast<bool>(tensor_); }

    // Element i of the row that belongs to row `row` of x.
    std::int64_t place(std::int64_t row, std::int64_t i) const {
        std::int64_t begin = 0;
        if (picks_) {
            const std::int64_t pick = load_integer(picks_.dtype, picks_.data, row);
            begin = std::clamp<std::int64_t>(pick, 0, tensor_.shape[0] - 1) * tensor_.stride[0];
        } else {
            begin = map_.offset(row);
        }
        return begin + (map_.single ? 0 : i);
    }
    double at(std::int64_t row, std::int64_t i, double absent = 0) const {
        return tensor_ ? load_element(tensor_.dtype, tensor_.data, place(row, i)) : absent;
    }
    const Tensor& tensor() const { return tensor_; }

   private:
    Tensor tensor_, picks_;
    RowMap map_;
};

// What a norm reads: x, or residual + gate · x in fp32 with one rounding, rounded to the residual's dtype; that goes to
// residual_out too. As PyTorch's operators (rounding=eager): the product is rounded first, to x's dtype unless the gate is
// in fp32.
template <class Op>
class ReferenceInput {
   public:
    explicit ReferenceInput(const Op& op)
        : x_(op.x, op.x),
          residual_(op.residual, op.x),
          gate_(op.gate, op.x),
          sum_(op.residual_out, op.x),
          eager_(op.rounding != Rounding::fused) {}

    std::vector<double> row(std::int64_t row, Oracle& oracle) const {
        std::vector<double> r(static_cast<std::size_t>(x_.tensor().dim(-1)));
        for (std::size_t i = 0; i < r.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            r[i] = x_.at(row, at);
            if (!residual_) continue;
            const double other = residual_.at(row, at), gate = gate_.at(row, at, 1);
            const double r_x = r[i], sum = other + gate * r_x;
            r[i] = round_to(residual_.tensor().dtype,
                            static_cast<double>(std::fma(static_cast<float>(gate), static_cast<float>(r[i]),
                                                         static_cast<float>(other))));
            if (eager_) r[i] = eager_sum(r_x, gate, other);
            if (!sum_) continue;
            oracle.store(sum_.tensor(), sum_.place(row, at), eager_ ? r[i] : sum,
                         !eager_ && std::isfinite(sum) ? kEps32 * std::fabs(sum) : 0);
        }
        return r;
    }

   private:
    double eager_sum(double x, double gate, double other) const {
        double product = round_to(DType::fp32, gate * x);
        if (gate_ && gate_.tensor().dtype != DType::fp32) product = round_to(x_.tensor().dtype, product);
        return round_to(residual_.tensor().dtype, round_to(DType::fp32, product + other));
    }

    ReferenceRows x_, residual_, gate_, sum_;
    bool eager_;
};

// y · (scale + offset) + shift, of values within ± error.
template <class Op>
class ReferenceModulation {
   public:
    ReferenceModulation(const Op& op, const Tensor& scale, const Tensor& shift)
        : scale_(scale, op.x, op.mod_index),
          shift_(shift, op.x, op.mod_index),
          offset_(static_cast<double>(op.mod_offset)),
          tanh_(op.mod_tanh) {}

    void apply(std::int64_t row, std::vector<double>& y, std::vector<double>& error) const {
        if (!scale_ && !shift_) return;
        for (std::size_t i = 0; i < y.size(); ++i) {
            const auto at = static_cast<std::int64_t>(i);
            double factor = 1, factor_error = 0;
            if (scale_) {
                const double scale = scale_.at(row, at), plain = tanh_ ? std::tanh(scale) : scale;
                factor = plain + offset_;
                factor_error = kEps32 * (std::fabs(factor) + (tanh_ ? 4 * std::fabs(plain) : 0));
            }
            const double product = y[i] * factor;
            error[i] = error[i] * (std::fabs(factor) + factor_error) + std::fabs(y[i]) * factor_error +
                       kEps32 * std::fabs(product);
            y[i] = product + shift_.at(row, at);
            error[i] += kEps32 * std::fabs(y[i]);
        }
    }

   private:
    ReferenceRows scale_, shift_;
    double offset_;
    bool tanh_;
};

// The outputs of a norm whose normalised row is y ± error.
template <class Op>
void reference_outputs(const Op& op, std::int64_t row, std::vector<double> y, std::vector<double> error,
                       Oracle& oracle) {
    if (op.out2) {
        std::vector<double> second = y, second_error = error;
        ReferenceModulation(op, op.mod_scale2, op.mod_shift2).apply(row, second, second_error);
        NarrowReference(NarrowFields{.out = op.out2}, oracle).store_row(row, second, second_error);
    }
    ReferenceModulation(op, op.mod_scale, op.mod_shift).apply(row, y, error);
    NarrowReference(narrow_fields(op), oracle).store_row(row, y, error);
}

}  // namespace weft
