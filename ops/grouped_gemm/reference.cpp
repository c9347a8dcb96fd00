// grouped_gemm's executable specification: double sums of each group's rows, the epilogue in the contract's order, rounded once.
#include <vector>

#include "ops/gemm/tolerance.h"
#include "ops/grouped_gemm/groups.h"
#include "weft/op.h"

namespace weft {
namespace {

using gemm::Value;

double at(const Tensor& t, std::int64_t index) { return load_element(t.dtype, t.data, index); }
double scalar(const Tensor& t) { return t ? at(t, 0) : 1.0; }

// Row `row` of a matrix, times the scales of its groups.
std::vector<double> row_of(const Tensor& t, std::int64_t row, const gemm::ScalesAlong& scales) {
    std::vector<double> elements(static_cast<std::size_t>(t.dim(1)));
    for (std::int64_t i = 0; i < t.dim(1); ++i)
        elements[static_cast<std::size_t>(i)] =
            at(t, row * t.stride[0] + i * t.stride[1]) * scales.at(row, i);
    return elements;
}

Value product(const Gemm& op, const std::vector<double>& row, const std::vector<double>& weights,
              const Tensor& scale, const Tensor& bias, std::int64_t n, bool hardware) {
    const Value sum =
        gemm::scaled_sum(op, row.data(), weights.data(), scalar(op.a_scale) * scalar(scale), hardware);
    return bias ? plus(sum, at(bias, n * bias.stride[0])) : sum;
}

// Some rows of a group: `out` is where they are stored, from the element `first` on.
void product_of_group(const Gemm& op, const grouped::Span& rows, const Tensor& out, std::int64_t first,
                      Oracle& oracle) {
    const gemm::ScalesAlong a_scales = gemm::scales_of_a(op), b_scales = gemm::scales_of_b(op),
                            up_scales = gemm::scales_of_up(op);
    std::vector<std::vector<double>> a;
    for (std::int64_t m = rows.begin; m < rows.end; ++m) a.push_back(row_of(op.a, m, a_scales));
    for (std::int64_t n = 0; n < op.b.dim(0); ++n) {
        const std::vector<double> b = row_of(op.b, n, b_scales), up = op.up ? row_of(op.up, n, up_scales) : b;
        for (std::int64_t m = rows.begin; m < rows.end; ++m) {
            const std::int64_t place = first + m * op.out.stride[0] + n * op.out.stride[1];
            if (!oracle.wants(place)) continue;
            const std::vector<double>& row = a[static_cast<std::size_t>(m - rows.begin)];
            Value y = activated(op, product(op, row, b, op.b_scale, op.bias, n, oracle.hardware()),
                                oracle.hardware());
            bool determined = true;
            if (op.up) {
                const Value gated = product(op, row, up, op.up_scale, op.up_bias, n, oracle.hardware());
                determined = !undetermined(y, gated);
                y = times(y, gated);
            }
            oracle.store(out, place, y.value, determined ? y.error : Oracle::kUndetermined);
        }
    }
}

void reference(const GroupedGemm& op, Oracle& oracle) {
    grouped::Span rows;
    for (std::int64_t g = 0; g < op.groups(); ++g) {
        rows = span_of(op, g, rows);
        const std::int64_t first = op.apart() ? g * op.out.stride[0] : 0;
        product_of_group(grouped::product_of(op, g), rows, op.out, first, oracle);
    }
}

const RegisterReference<GroupedGemm> kReference{reference};

}  // namespace
}  // namespace weft
