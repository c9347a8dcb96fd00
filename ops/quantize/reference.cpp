// quantize's executable specification.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kit/narrow_reference.h"
#include "ops/quantize/quantize.h"
#include "weft/op.h"

namespace weft {
namespace {

// Element i of a row, times its column's factor in fp32.
double element(const Quantize& op, const Rows& x, std::int64_t row, std::int64_t i) {
    const double value = load_element(op.x.dtype, op.x.data, row * x.stride + i);
    if (!op.channel_multiplier) return value;
    const double factor = load_element(op.channel_multiplier.dtype, op.channel_multiplier.data, i);
    return static_cast<float>(value) * static_cast<float>(factor);
}

// The largest magnitude in rows [top, bottom) of columns [left, right).
NarrowAmax amax_of(const Quantize& op, const Rows& x, std::int64_t top, std::int64_t bottom,
                   std::int64_t left, std::int64_t right) {
    NarrowAmax amax;
    for (std::int64_t row = top; row < bottom; ++row) {
        for (std::int64_t i = left; i < right; ++i) amax.add(element(op, x, row, i), 0);
    }
    return amax;
}

void store_blocks(const Quantize& op, const Rows& x, NarrowReference& out, Oracle& oracle) {
    for (std::int64_t top = 0; top < x.rows; top += 128) {
        for (std::int64_t left = 0; left < x.dim; left += 128) {
            const std::int64_t bottom = std::min(top + 128, x.rows), right = std::min(left + 128, x.dim);
            const NarrowScale scale =
                fp32_scale(amax_of(op, x, top, bottom, left, right), op.out.dtype, max_value(op.out.dtype));
            const Tensor& scales = op.block_scale;
            oracle.store(scales, top / 128 * scales.stride[0] + left / 128 * scales.stride[1], scale.value);
            for (std::int64_t row = top; row < bottom; ++row) {
                for (std::int64_t i = left; i < right; ++i)
                    out.store_code(row, i, element(op, x, row, i), 0, scale);
            }
        }
    }
}

void reference(const Quantize& op, Oracle& oracle) {
    const Rows x = *fold_rows(op.x);
    NarrowReference out(narrow_fields(op), oracle);
    if (op.block_scale) return store_blocks(op, x, out, oracle);
    if (op.tensor_scale) {
        const bool groups = op.group_scale || op.swizzled_scale;
        NarrowAmax amax = amax_of(op, x, 0, x.rows, 0, x.dim);
        amax.nan = amax.nan && !groups;  // a group's own scale says it
        const double levels = max_value(op.out.dtype) * (groups ? max_value(DType::fp8_e4m3) : 1);
        const NarrowScale scale = fp32_scale(amax, op.out.dtype, levels);
        oracle.store(op.tensor_scale, 0, scale.value);
        out.tensor_scale(static_cast<float>(scale.value));
    }
    std::vector<double> y(static_cast<std::size_t>(x.dim)), exact(y.size(), 0.0);
    for (std::int64_t row = 0; row < x.rows; ++row) {
        for (std::int64_t i = 0; i < x.dim; ++i) y[static_cast<std::size_t>(i)] = element(op, x, row, i);
        out.store_row(row, y, exact);
    }
}

const RegisterReference<Quantize> kReference{reference};

}  // namespace
}  // namespace weft
