// A call held against its contract.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/overlap.h"
#include "weft/contract.h"

namespace weft {
namespace {

[[noreturn]] void reject(const std::string& op, const std::string& field, std::string message) {
    throw Error(ErrorCode::invalid_argument, op, field, std::move(message));
}

std::string names_of(DTypeSet set) {
    std::string text;
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        if (set.contains(dtype)) text += (text.empty() ? "" : ", ") + std::string(name(dtype));
    }
    return text;
}

// Of elements that share bytes.
bool rows_begin_at_bytes(const Tensor& t) {
    bool even = t.rank > 0 && t.shape[t.rank - 1] % 2 == 0;
    for (int i = 0; i + 1 < t.rank; ++i) even = even && (t.shape[i] == 1 || t.stride[i] % 2 == 0);
    return even;
}

bool same_view(const Tensor& a, const Tensor& b) {
    if (a.data != b.data || bits(a.dtype) != bits(b.dtype) || a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; ++i) {
        if (a.shape[i] != b.shape[i] || (a.shape[i] > 1 && a.stride[i] != b.stride[i])) return false;
    }
    return true;
}

// What is wrong with the sizes and strides of a tensor by themselves; "" where nothing is. Those of an empty one may be
// anything.
std::string extent_problem(const Tensor& t, bool writes) {
    if (t.rank > kMaxRank) return fmt::format("rank {} exceeds {}", t.rank, kMaxRank);
    for (int i = 0; i < t.rank; ++i) {
        if (t.shape[i] < 0) return fmt::format("axis {} has negative size {}", i, t.shape[i]);
    }
    const bool empty = std::count(t.shape, t.shape + t.rank, 0) > 0;
    const auto rank = static_cast<std::size_t>(t.rank);
    if (is_too_large({t.shape, rank}, {t.stride, empty ? 0 : rank})) {
        return fmt::format("is too large: [{}] with the strides [{}]",
                           fmt::join(t.shape, t.shape + t.rank, ", "),
                           fmt::join(t.stride, t.stride + t.rank, ", "));
    }
    for (int i = 0; i < t.rank && !empty; ++i) {
        if (t.shape[i] > 1 && (t.stride[i] < 0 || (t.stride[i] == 0 && writes))) {
            return fmt::format(
                "axis {} has stride {}: {}", i, t.stride[i],
                t.stride[i] < 0 ? "strides must not be negative" : "an output can't be broadcast");
        }
    }
    return "";
}

// What is wrong with where the elements of a tensor that has some lie; "" where nothing is.
std::string storage_problem(const Tensor& t, const Field& field) {
    if (bits(t.dtype) < 8 && !rows_begin_at_bytes(t)) {
        return fmt::format(
            "two elements share a byte: the last axis and the strides of the others must be even, got {}",
            to_string(t));
    }
    if (t.data == nullptr) return "is a null pointer";
    const auto align = static_cast<std::size_t>(bytes(t.dtype, 1));
    if (reinterpret_cast<std::uintptr_t>(t.data) % align != 0)
        return fmt::format("must be aligned to its element of {} bytes", align);
    const int last = t.rank - 1;
    const bool inner = t.rank == 0 || t.shape[last] <= 1 || t.stride[last] == 1;
    if (field.layout == Layout::dense && !t.is_dense())
        return fmt::format("must be dense (row-major, no gaps), got {}", to_string(t));
    if ((field.layout == Layout::rows || field.layout == Layout::inner) && !inner)
        return fmt::format("the last axis must be contiguous, got {}", to_string(t));
    if (field.layout == Layout::rows && t.rank > 2 && !fold_rows(t))
        return fmt::format("the leading axes must fold into rows of one stride, got {}", to_string(t));
    if (field.writes() && overlaps_itself(t))
        return fmt::format("its own elements must not overlap, got {}", to_string(t));
    return "";
}

// The axis of an expression that has no other, so that a size determines it; -1 where there is none.
int only_axis(const AxisExpression& expression) {
    int found = -1;
    for (int axis = 0; axis < kMaxAxes; ++axis) {
        if (!expression.mentions(axis)) continue;
        if (found >= 0 || expression.rounds(axis)) return -1;
        found = axis;
    }
    return found;
}

// A field's axes in this call, whether it is picked or not.
const AxisPattern& axes_in(const Contract& contract, const void* op, const Field& field) {
    return contract.pattern(field, [&](int i) {
        return static_cast<bool>(Contract::tensor(op, contract.fields()[static_cast<std::size_t>(i)]));
    });
}

// The axes that only absent inputs name, or those that are there where they are picked, and this one is not, or the
// other way round.
std::array<bool, kMaxAxes> absent_axes(const Contract& contract, const void* op) {
    std::array<bool, kMaxAxes> named{}, absent{};
    for (const Field& field : contract.fields()) {
        const bool counts = Contract::tensor(op, field) || field.writes();
        for (const AxisPattern* pattern : {&field.pattern, &field.picked_pattern}) {
            const bool used = counts && pattern == &axes_in(contract, op, field);
            for (const AxisExpression& axis : pattern->axes) {
                const int only = only_axis(axis);
                if (only >= 0 && (used || axis.is_name()))
                    (used ? named : absent)[static_cast<std::size_t>(only)] = true;
            }
        }
    }
    for (std::size_t axis = 0; axis < kMaxAxes; ++axis) absent[axis] = absent[axis] && !named[axis];
    return absent;
}

// Such an axis is empty: nothing lies beside what is there.
void bind_absent(const Contract& contract, const void* op, AxisSizes& sizes) {
    const auto absent = absent_axes(contract, op);
    for (std::size_t axis = 0; axis < kMaxAxes; ++axis) {
        if (absent[axis] && sizes.size[axis] == kUnknown) sizes.size[axis] = 0;
    }
}

}  // namespace

AxisSizes Contract::check(const void* op) const {
    AxisMatcher matcher(axes_);
    check_options(op, matcher.sizes);
    bind_absent(*this, op, matcher.sizes);
    for (const Field& field : fields_) {
        if (const Tensor& t = tensor(op, field)) size_by_dtype(field, t.dtype, matcher.sizes);
    }
    const Field* first = nullptr;  // that is there
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        if (!t) {
            if (!field.optional)
                reject(name_, field.name, fmt::format("is required: {} [{}]", field.meaning, field.axes));
            continue;
        }
        check_field(op, field, matcher);
        if (first == nullptr) first = &field;
        if (const Device device = tensor(op, *first).device; !(t.device == device)) {
            reject(name_, field.name,
                   fmt::format("expected device {}:{} as {}, got {}:{}", weft::name(device.type),
                               device.index, first->name, weft::name(t.device.type), t.device.index));
        }
    }
    // Composite axes may have become known only by a later field.
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        const AxisPattern& axes = axes_in(*this, op, field);
        if (!t || std::all_of(axes.axes.begin(), axes.axes.end(),
                              [](const AxisExpression& a) { return a.is_name(); })) {
            continue;
        }
        if (std::string problem = matcher.match(axes, t); !problem.empty()) {
            reject(name_, field.name, std::move(problem));
        }
    }
    check_aliases(op);
    for (const Relation& relation : relations_) check_relation(op, relation);
    for (const auto& requirement : requirements_) {
        if (auto violation = requirement(op)) reject(name_, violation->field, std::move(violation->message));
    }
    return matcher.sizes;
}

void Contract::check_options(const void* op, AxisSizes& sizes) const {
    for (const Option& option : options_) {
        const double value = get(op, option);
        if (!(value >= option.low && value <= option.high)) {
            reject(name_, option.name,
                   option.kind == Option::Kind::choice
                       ? fmt::format("expected one of {}", fmt::join(option.choices, ", "))
                       : fmt::format("expected a value in [{}, {}], got {}", option.low, option.high, value));
        }
        if (option.axis >= 0)
            sizes.size[static_cast<std::size_t>(option.axis)] = static_cast<std::int64_t>(value);
    }
}

void Contract::check_field(const void* op, const Field& field, AxisMatcher& matcher) const {
    const Tensor& t = tensor(op, field);
    if (!field.dtypes.contains(t.dtype)) {
        reject(name_, field.name,
               fmt::format("expected dtype {}, got {}", names_of(field.dtypes), weft::name(t.dtype)));
    }
    if (std::string problem = extent_problem(t, field.writes()); !problem.empty())
        reject(name_, field.name, std::move(problem));
    if (std::string problem = matcher.match(axes_in(*this, op, field), t); !problem.empty())
        reject(name_, field.name, std::move(problem));
    if (t.numel() == 0) return;
    if (std::string problem = storage_problem(t, field); !problem.empty())
        reject(name_, field.name, std::move(problem));
}

void Contract::check_aliases(const void* op) const {
    for (const Field& output : fields_) {
        if (!output.writes()) continue;
        const Tensor& out = tensor(op, output);
        if (!out || out.numel() == 0) continue;
        for (const Field& other : fields_) {
            const Tensor& t = tensor(op, other);
            if (&other == &output || !t || t.numel() == 0) continue;
            if (other.writes() && &other < &output)
                continue;  // that pair was looked at from its first member
            const auto& allowed = output.in_place_of;
            const bool in_place = std::find(allowed.begin(), allowed.end(), other.name) != allowed.end();
            if ((in_place && same_view(out, t)) || !overlap(out, t)) continue;
            reject(name_, output.name,
                   in_place ? fmt::format("overlaps {} without being the very same view of elements as wide",
                                          other.name)
                            : fmt::format("must not overlap {}", other.name));
        }
    }
}

void Contract::check_call(const void* op) const {
    AxisSizes sizes = check(op);
    const auto absent = absent_axes(*this, op);  // a table that is not there bounds nothing
    for (std::size_t axis = 0; axis < kMaxAxes; ++axis) {
        if (absent[axis]) sizes.size[axis] = kUnknown;
    }
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        if (!t || t.device.type != DeviceType::cpu || !field.reads() || field.fill.bound.empty()) continue;
        if (std::string breach = field.fill.breach(t, field.fill.limit_of(sizes)); !breach.empty())
            reject(name_, field.name, std::move(breach));
    }
}

void Contract::check_relation(const void* op, const Relation& relation) const {
    const Field& field = fields_[static_cast<std::size_t>(relation.field)];
    const Field& other = fields_[static_cast<std::size_t>(relation.other)];
    const Tensor &t = tensor(op, field), &o = tensor(op, other);
    if (!t) return;
    switch (relation.kind) {
        case Relation::Kind::same_dtype:
            if (!o || t.dtype == o.dtype) return;
            reject(name_, field.name,
                   fmt::format("expected {}'s dtype {}, got {}", other.name, weft::name(o.dtype),
                               weft::name(t.dtype)));
        case Relation::Kind::dtype_beside: {
            const std::span<const DType> fitting = relation.beside(o.dtype);
            if (!o || std::find(fitting.begin(), fitting.end(), t.dtype) != fitting.end()) return;
            DTypeSet set;
            for (const DType dtype : fitting) set = set | dtype;
            reject(name_, field.name,
                   fmt::format("expected {} beside {} of {}, got {}",
                               fitting.empty() ? "none" : "dtype " + names_of(set), other.name,
                               weft::name(o.dtype), weft::name(t.dtype)));
        }
        case Relation::Kind::scale_of:
            if ((kNarrow | DType::int4).contains(o.dtype)) return;
            reject(name_, field.name,
                   fmt::format("expected none, because {} is {}, which has no scale", other.name,
                               weft::name(o.dtype)));
        case Relation::Kind::needs:
            if (o) return;
            reject(name_, field.name, fmt::format("expected {} beside it, got none", other.name));
        case Relation::Kind::excludes:
            if (!o) return;
            reject(name_, field.name, fmt::format("expected {} or {}, got both", other.name, field.name));
    }
}

}  // namespace weft
