// Cutting calls into parts.
#include "verify/part.h"

#include <algorithm>

#include "weft/error.h"

namespace weft {
namespace {

bool goes_through(const Cut& cut, const Field& field) {
    if (std::find(cut.whole.begin(), cut.whole.end(), field.name) != cut.whole.end()) return false;
    if (cut.leading >= 0) return field.pattern.ellipsis;
    return std::any_of(field.pattern.axes.begin(), field.pattern.axes.end(),
                       [&](const AxisExpression& a) { return a.mentions(cut.axis); });
}

// Does the field round what is cut (`ceil(dim/16)`, `pad(...,128)`)? Then parts of it are no parts of the call.
bool rounds(const Cut& cut, const Field& field) {
    return std::any_of(field.pattern.axes.begin(), field.pattern.axes.end(), [&](const AxisExpression& a) {
        return cut.leading >= 0 ? a.mentions_leading() : a.rounds(cut.axis);
    });
}

// Do both patterns have the axis, at the same place?
bool has_alike(const AxisPattern& a, const AxisPattern& b, int axis) {
    bool found = false;
    for (std::size_t i = 0; axis >= 0 && i < std::min(a.axes.size(), b.axes.size()); ++i)
        found = found || (a.axes[i].mentions(axis) && b.axes[i].mentions(axis));
    return found && a.axes.size() == b.axes.size() && !a.ellipsis && !b.ellipsis;
}

std::vector<Cut> declared(const Case& c) {
    const AxisSizes sizes = c.check();
    std::vector<Cut> cuts;
    for (const std::string& name : c.contract().independent()) {
        if (name == "...") {
            int leading = 0;
            for (const std::int64_t size : sizes.between()) cuts.push_back({name, -1, leading++, size, {}});
            continue;
        }
        const int axis = c.contract().axes().find(name);
        if (axis < 0) throw Error(ErrorCode::internal, c.contract().name(), name, "is no axis of the op");
        cuts.push_back({name, axis, -1, sizes.size[static_cast<std::size_t>(axis)], {}});
    }
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const Field& field = c.contract().fields()[i];
        if (&c.pattern(i) == &field.pattern) continue;
        for (Cut& cut : cuts) {
            if (!has_alike(c.pattern(i), field.pattern, cut.axis)) cut.whole.push_back(field.name);
        }
    }
    if (sizes.frames != 0)
        std::erase_if(cuts, [&](const Cut& cut) { return cut.leading == sizes.leading_rank - 1; });
    return cuts;
}

}  // namespace

std::vector<Cut> cuts_of(const Case& c) {
    std::vector<Cut> cuts = declared(c);
    std::erase_if(cuts, [&](const Cut& cut) {
        bool in_all = cut.size > 1;
        for (std::size_t i = 0; i < c.tensors.size(); ++i) {
            const Field& field = c.contract().fields()[i];
            if (c.tensors[i].present && field.writes()) in_all = in_all && goes_through(cut, field);
            if (c.tensors[i].present) in_all = in_all && !rounds(cut, field);
        }
        return !in_all;
    });
    return cuts;
}

bool is_cut(const Field& field, const std::vector<Cut>& cuts) {
    return std::any_of(cuts.begin(), cuts.end(), [&](const Cut& cut) { return goes_through(cut, field); });
}

Tensor share(const Tensor& whole, const Field& field, const std::vector<Cut>& cuts, const Part& part) {
    Tensor t = whole;
    const int named = static_cast<int>(field.pattern.axes.size());
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        if (!goes_through(cuts[i], field)) continue;
        if (cuts[i].leading >= 0) {
            const int axis = field.pattern.before + cuts[i].leading;
            const bool shared = axis >= whole.rank - named || whole.shape[axis] == 1;
            if (field.pattern.broadcast && shared) continue;
            t = t.slice(axis, part[i].begin, part[i].end);
            continue;
        }
        for (int j = 0; j < named; ++j) {
            const AxisExpression& expression = field.pattern.axes[static_cast<std::size_t>(j)];
            if (!expression.mentions(cuts[i].axis)) continue;
            if (!expression.leads_with(cuts[i].axis)) {
                throw Error(
                    ErrorCode::internal, "", field.name,
                    cuts[i].name + " is declared independent, but does not lead " + expression.text());
            }
            const int axis = field.pattern.place(j, whole.rank);
            if (field.pattern.broadcast && (axis < 0 || whole.shape[axis] == 1))
                continue;  // one element for all of a row
            const std::int64_t each = whole.shape[axis] / cuts[i].size;
            t = t.slice(axis, part[i].begin * each, part[i].end * each);
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
        const Tensor t = share(whole, c.contract().fields()[i], cuts, part);
        spec.shape.assign(t.shape, t.shape + t.rank);
        spec.stride.clear();
        spec.offset = 0;
    }
    return less;
}

}  // namespace weft
