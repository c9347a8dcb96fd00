// An op that only the tests have: every kind of field, option and rule.
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "weft/contract.h"
#include "weft/op.h"

namespace weft::test {

// out = factor · (x + y) · weight, per row; sums = Σ out.
struct Probe {
    static constexpr std::string_view kName = "probe";
    enum class Mode { plain, doubled };

    Tensor x{}, weight{}, y{}, packed{}, state{}, out{}, sums{};
    float factor = 1.0f;
    std::int64_t groups = 0;
    bool negate = false;
    Mode mode = Mode::plain;

    static const Contract& contract() {
        using Op = Probe;
        static const Contract c =
            Describe<Op>(std::string(kName), "out = factor · (x + y) · weight")
                .in("x", &Op::x, "... dim", kFloat, "the rows")
                .in("weight", &Op::weight, "dim", kFloat, "one a column")
                .optional()
                .in("y", &Op::y, "... dim", kFloat, "added first")
                .optional()
                .layout(Layout::strided)
                .in("packed", &Op::packed, "rows (groups+2)*dim", DType::fp4_e2m1, "never read")
                .optional()
                .layout(Layout::dense)
                .inout("state", &Op::state, "1", DType::fp32, "counts")
                .optional()
                .out("out", &Op::out, "... dim", kFloat, "the result")
                .in_place_of("x")
                .out("sums", &Op::sums, "...", DType::fp32, "of each row")
                .optional()
                .layout(Layout::dense)
                .option("factor", &Op::factor, -8, 8, "multiplies", {1, 0.5})
                .option("groups", &Op::groups, 0, 64, "sizes packed", {0, 1, 2})
                .option("negate", &Op::negate, "flips the sign")
                .option("mode", &Op::mode, {"plain", "doubled"}, "how often")
                .require(+[](const Op& op) -> std::optional<Violation> {
                    if (!op.y || op.y.dtype == op.x.dtype) return std::nullopt;
                    return Violation{"y", "expected dtype " + std::string(name(op.x.dtype)) + " as x"};
                })
                .independent({"..."})
                .tolerance("2 roundings")
                .source("nothing");
        return c;
    }

    double value(double x_value, double y_value, double weight_value) const {
        return (x_value + y_value) * weight_value * factor * (negate ? -1 : 1) *
               (mode == Mode::doubled ? 2 : 1);
    }
};

// Visits every row and column: use(flat offset of x, of y, of out, column, row).
template <class Use>
void for_each_element(const Probe& op, Use use) {
    const Rows x = *fold_rows(op.x), out = *fold_rows(op.out);
    for (std::int64_t row = 0; row < x.rows; ++row) {
        std::int64_t y = 0, rest = row;
        for (int axis = op.y.rank - 2; axis >= 0; --axis) {
            y += rest % op.y.shape[axis] * op.y.stride[axis];
            rest /= op.y.shape[axis];
        }
        for (std::int64_t i = 0; i < x.dim; ++i) {
            use(row * x.stride + i, op.y ? y + i * op.y.stride[op.y.rank - 1] : 0, row * out.stride + i, i,
                row);
        }
    }
}

inline void reference(const Probe& op, Oracle& oracle) {
    std::vector<double> sums(static_cast<std::size_t>(fold_rows(op.x)->rows)), magnitude(sums.size());
    for_each_element(op,
                     [&](std::int64_t x, std::int64_t y, std::int64_t out, std::int64_t i, std::int64_t row) {
                         const double a = load_element(op.x.dtype, op.x.data, x);
                         const double b = op.y ? load_element(op.y.dtype, op.y.data, y) : 0;
                         const double w = op.weight ? load_element(op.weight.dtype, op.weight.data, i) : 1;
                         const double value = op.value(a, b, w);
                         sums[static_cast<std::size_t>(row)] += value;
                         magnitude[static_cast<std::size_t>(row)] += std::fabs(value);
                         oracle.store(op.out, out, value, 4 * kEps32 * std::fabs(value));
                     });
    for (std::size_t row = 0; op.sums && row < sums.size(); ++row) {
        const double error = (4 + static_cast<double>(op.x.dim(-1))) * kEps32 * magnitude[row];
        oracle.store(op.sums, static_cast<std::int64_t>(row), sums[row], error);
    }
}

}  // namespace weft::test
