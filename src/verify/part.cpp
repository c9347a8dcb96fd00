// Cutting calls into parts.
#include "verify/part.h"

#include <numeric>

#include "weft/error.h"

namespace weft {
namespace {

bool goes_through(const Cut& cut, const AxisPattern& pattern) {
    if (cut.leading >= 0) return pattern.ellipsis;
    return std::any_of(pattern.axes.begin(), pattern.axes.end(),
                       [&](const AxisExpression& a) { return a.mentions(cut.axis); });
}

// How many indices are only cut together; 0 where parts of what rounds the axis are no parts of the call.
std::int64_t step_of(const Cut& cut, const AxisPattern& pattern) {
    std::int64_t step = 1;
    for (const AxisExpression& a : pattern.axes) {
        if (cut.leading >= 0 && a.mentions_leading()) return 0;
        if (cut.axis >= 0) step = std::lcm(step, a.step(cut.axis));
    }
    return step;
}

std::vector<Cut> declared(const Case& c) {
    const AxisSizes sizes = c.check();
    std::vector<Cut> cuts;
    for (const std::string& name : c.contract().independent()) {
        if (name == "...") {
            int leading = 0;
            for (const std::int64_t size : sizes.between())
                cuts.push_back({.name = name, .leading = leading++, .length = size});
            continue;
        }
        const int axis = c.contract().axes().find(name);
        if (axis < 0) throw Error(ErrorCode::internal, c.contract().name(), name, "is no axis of the op");
        cuts.push_back({.name = name, .axis = axis, .length = sizes.size[static_cast<std::size_t>(axis)]});
    }
    if (sizes.frames != 0)
        std::erase_if(cuts, [&](const Cut& cut) { return cut.leading == sizes.leading_rank - 1; });
    return cuts;
}

// Which indices of an axis of a tensor, `extent` long, belong to these steps.
Range through(const Cut& cut, const AxisExpression& expression, std::int64_t extent, const Range& steps) {
    const Range of = cut.indices(steps);
    if (expression.rounds(cut.axis)) {
        const auto until = [&](std::int64_t index) {
            AxisSizes sizes;
            sizes.size[static_cast<std::size_t>(cut.axis)] = index;
            return expression.evaluate(sizes);
        };
        return {until(of.begin), until(of.end)};
    }
    if (!expression.leads_with(cut.axis)) {
        throw Error(ErrorCode::internal, "", cut.name,
                    "is declared independent, but does not lead " + expression.text());
    }
    const std::int64_t each = extent / cut.length;
    return {of.begin * each, of.end * each};
}

}  // namespace

std::vector<Cut> cuts_of(const Case& c) {
    std::vector<Cut> cuts = declared(c);
    for (Cut& cut : cuts) {
        for (std::size_t i = 0; i < c.tensors.size(); ++i) {
            if (!c.tensors[i].present) continue;
            const AxisPattern& pattern = c.pattern(i);
            if (c.contract().fields()[i].writes() && !goes_through(cut, pattern)) cut.step = 0;
            cut.step = std::lcm(cut.step, step_of(cut, pattern));
        }
        cut.size = cut.step > 0 ? (cut.length + cut.step - 1) / cut.step : 0;
    }
    std::erase_if(cuts, [](const Cut& cut) { return cut.size <= 1; });
    return cuts;
}

bool is_cut(const AxisPattern& pattern, const std::vector<Cut>& cuts) {
    return std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) { return goes_through(cut, pattern); });
}

Tensor share(const Tensor& whole, const AxisPattern& pattern, const std::vector<Cut>& cuts,
             const Part& part) {
    Tensor t = whole;
    const int named = static_cast<int>(pattern.axes.size());
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        const Cut& cut = cuts[i];
        if (!goes_through(cut, pattern)) continue;
        if (cut.leading >= 0) {
            const int axis = pattern.before + cut.leading;
            const bool shared = axis >= whole.rank - named || whole.shape[axis] == 1;
            if (pattern.broadcast && shared) continue;
            const Range of = cut.indices(part[i]);
            t = t.slice(axis, of.begin, of.end);
            continue;
        }
        for (int j = 0; j < named; ++j) {
            const AxisExpression& expression = pattern.axes[static_cast<std::size_t>(j)];
            if (!expression.mentions(cut.axis)) continue;
            const int axis = pattern.place(j, whole.rank);
            if (pattern.broadcast && (axis < 0 || whole.shape[axis] == 1))
                continue;  // one element for all of a row
            const Range of = through(cut, expression, whole.shape[axis], part[i]);
            t = t.slice(axis, of.begin, of.end);
        }
    }
    return t;
}

Case part_case(const Case& c, const std::vector<Cut>& cuts, const Part& part) {
    Case less = c;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        TensorSpec& spec = less.tensors[i];
        if (!spec.present) continue;
        // Shapes are what counts: the address is made up.
        const Tensor whole = c.tensors[i].over(reinterpret_cast<void*>(std::uintptr_t{1} << 40), kCpu);
        const Tensor t = share(whole, c.pattern(i), cuts, part);
        spec.shape.assign(t.shape, t.shape + t.rank);
        spec.stride.clear();
        spec.offset = 0;
    }
    return less;
}

}  // namespace weft
