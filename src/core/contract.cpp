// Contract: the checks that follow from a description.
#include "weft/contract.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/overlap.h"

namespace weft {
namespace {

// A description that contradicts itself.
[[noreturn]] void misdescribed(const std::string& op, const std::string& field, std::string message) {
    throw Error(ErrorCode::internal, op, field, "its description " + std::move(message));
}

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

template <class T>
T peek(const void* op, std::size_t offset) {
    T value;
    std::memcpy(&value, static_cast<const char*>(op) + offset, sizeof(T));
    return value;
}
template <class T>
void poke(void* op, std::size_t offset, T value) {
    std::memcpy(static_cast<char*>(op) + offset, &value, sizeof(T));
}

// The axes that only absent inputs name.
std::array<bool, kMaxAxes> absent_axes(const Contract& contract, const void* op) {
    std::array<bool, kMaxAxes> named{}, absent{};
    for (const Field& field : contract.fields()) {
        const bool present = static_cast<bool>(Contract::tensor(op, field));
        for (const AxisExpression& axis : field.pattern.axes) {
            if (!axis.is_name()) continue;
            auto& list = present || field.writes() ? named : absent;
            list[static_cast<std::size_t>(axis.axis())] = true;
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

Contract::Contract() = default;
Contract::Contract(const Contract&) = default;
Contract::Contract(Contract&&) noexcept = default;
Contract::~Contract() = default;

const std::vector<std::int64_t>& Contract::sizes(int axis) const {
    static const std::vector<std::int64_t> kUsual = {1,  2,  3,  4,  5,  7,  8,   15,  16,  17,  31,  32,
                                                     33, 48, 63, 64, 65, 96, 127, 128, 129, 200, 256, 257};
    const auto i = static_cast<std::size_t>(axis);
    return i < sizes_.size() && !sizes_[i].empty() ? sizes_[i] : kUsual;
}

int Contract::find_field(std::string_view name) const {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        if (fields_[i].name == name) return static_cast<int>(i);
    }
    return -1;
}

int Contract::find_option(std::string_view name) const {
    for (std::size_t i = 0; i < options_.size(); ++i) {
        if (options_[i].name == name) return static_cast<int>(i);
    }
    return -1;
}

std::vector<std::string> Contract::rules(const Field& field) const {
    const auto text = [](Relation::Kind kind, const std::string& other) {
        switch (kind) {
            case Relation::Kind::same_dtype: return "the dtype of " + other;
            case Relation::Kind::dtype_beside: return "its dtype goes by that of " + other;
            case Relation::Kind::scale_of: return "only where " + other + " is stored in fewer bits";
            case Relation::Kind::needs: return "only beside " + other;
            case Relation::Kind::excludes: return "not beside " + other;
        }
        return other;
    };
    std::vector<std::string> rules;
    if (!field.fill.bound.empty()) rules.push_back(field.fill.rule());
    for (const Relation& r : relations_) {
        const Field &one = fields_[static_cast<std::size_t>(r.field)],
                    &other = fields_[static_cast<std::size_t>(r.other)];
        if (&one == &field) rules.push_back(text(r.kind, other.name));
        if (&other == &field && r.kind == Relation::Kind::excludes)
            rules.push_back(text(r.kind, one.name));  // both say so
    }
    return rules;
}

Tensor& Contract::tensor(void* op, const Field& field) {
    return *reinterpret_cast<Tensor*>(static_cast<char*>(op) + field.offset);
}
const Tensor& Contract::tensor(const void* op, const Field& field) {
    return *reinterpret_cast<const Tensor*>(static_cast<const char*>(op) + field.offset);
}

double Contract::get(const void* op, const Option& option) {
    switch (option.kind) {
        case Option::Kind::real: return peek<float>(op, option.offset);
        case Option::Kind::integer: return static_cast<double>(peek<std::int64_t>(op, option.offset));
        case Option::Kind::boolean: return peek<bool>(op, option.offset) ? 1 : 0;
        case Option::Kind::choice: return peek<std::int32_t>(op, option.offset);
    }
    return 0;
}

void Contract::set(void* op, const Option& option, double value) {
    switch (option.kind) {
        case Option::Kind::real: return poke(op, option.offset, static_cast<float>(value));
        case Option::Kind::integer: return poke(op, option.offset, static_cast<std::int64_t>(value));
        case Option::Kind::boolean: return poke(op, option.offset, value != 0);
        case Option::Kind::choice: return poke(op, option.offset, static_cast<std::int32_t>(value));
    }
}

void Contract::add_field(Field field) {
    try {
        field.pattern = AxisPattern::parse(field.axes, axes_);
    } catch (const Error& e) {
        misdescribed(name_, field.name,
                     fmt::format("has axes '{}': {}; blanks stand between axes", field.axes, e.message()));
    }
    if (field.pattern.broadcast) field.layout = Layout::inner;
    fields_.push_back(std::move(field));
    for (Option& option : options_) option.axis = axes_.find(option.name);
}

void Contract::add_option(Option option) {
    option.axis = option.kind == Option::Kind::integer ? axes_.find(option.name) : -1;
    options_.push_back(std::move(option));
}

void Contract::add_relation(Relation::Kind kind, std::string other, DTypeChoices choices) {
    relations_.push_back({kind, static_cast<int>(fields_.size()) - 1, -1, std::move(choices)});
    relation_names_.push_back(std::move(other));
}

void Contract::add_sizes(std::string_view axis, DTypeSizes sizes) {
    fields_.back().sized_axis = axes_.add(axis);
    fields_.back().sizes_by_dtype = std::move(sizes);
}

void Contract::size_by_dtype(const Field& field, DType dtype, AxisSizes& sizes) {
    for (const auto& [key, size] : field.sizes_by_dtype) {
        if (key == dtype) sizes.size[static_cast<std::size_t>(field.sized_axis)] = size;
    }
}

void Contract::resolve_relations() {
    for (std::size_t i = 0; i < relations_.size(); ++i) {
        relations_[i].other = find_field(relation_names_[i]);
        if (relations_[i].other < 0) {
            misdescribed(name_, fields_[static_cast<std::size_t>(relations_[i].field)].name,
                         fmt::format("names {}, which is no field", relation_names_[i]));
        }
    }
}

void Contract::resolve_fill(Field& field, const AxisNames& used) {
    if (field.fill.bound.empty()) return;
    const auto fail = [&](const std::string& why) {
        misdescribed(name_, field.name, fmt::format("has values of {}, and {}", field.fill.rule(), why));
    };
    AxisNames names = used;
    try {
        field.fill.limit = AxisExpression::parse(field.fill.bound, names);
    } catch (const Error& e) {
        fail(e.message());
    }
    if (names.all().size() > used.all().size()) fail("no field has the axis " + names.all().back());
    field.fill.limit = AxisExpression::parse(field.fill.bound, axes_);
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        if (field.dtypes.contains(dtype) && is_floating(dtype)) fail("only integers can have them");
    }
}

void Contract::finish() {
    resolve_relations();
    AxisNames used;
    for (const Field& field : fields_) {
        AxisPattern::parse(field.axes, used);
        AxisPattern::parse(field.picked_axes, used);
    }
    for (std::size_t i = 0; i < fields_.size(); ++i) {
        Field& field = fields_[i];
        if (!field.picked_by.empty() && find_field(field.picked_by) < 0)
            misdescribed(name_, field.name,
                         fmt::format("is picked by {}, which is no field", field.picked_by));
        resolve_fill(field, used);
        if (find_field(field.name) != static_cast<int>(i) || find_option(field.name) >= 0) {
            misdescribed(name_, field.name, "comes twice");
        }
        for (const std::string& input : field.in_place_of) {
            if (find_field(input) < 0)
                misdescribed(name_, field.name, fmt::format("is in place of {}, which is no field", input));
        }
    }
    for (std::size_t i = 0; i < options_.size(); ++i) {
        const Option& option = options_[i];
        if (find_option(option.name) != static_cast<int>(i)) misdescribed(name_, option.name, "comes twice");
        std::vector<double> values = option.samples;
        values.push_back(option.initial);
        for (const double value : values) {
            if (value >= option.low && value <= option.high) continue;
            misdescribed(name_, option.name,
                         fmt::format("has the value {} outside [{}, {}]", value, option.low, option.high));
        }
    }
    for (const std::string& axis : axes_.all()) {
        if (used.find(axis) < 0) misdescribed(name_, axis, "gives sizes to an axis that no field has");
    }
}

AxisSizes Contract::check(const void* op) const {
    AxisMatcher matcher(axes_);
    check_options(op, matcher.sizes);
    bind_absent(*this, op, matcher.sizes);
    for (const Field& field : fields_) {
        if (const Tensor& t = tensor(op, field)) size_by_dtype(field, t.dtype, matcher.sizes);
    }
    const Tensor* first = nullptr;
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        if (!t) {
            if (!field.optional)
                reject(name_, field.name, fmt::format("is required: {} [{}]", field.meaning, field.axes));
            continue;
        }
        check_field(op, field, matcher);
        if (first == nullptr) first = &t;
        if (!(t.device == first->device)) {
            reject(name_, field.name,
                   fmt::format("expected device {}:{} as {}, got {}:{}", weft::name(first->device.type),
                               first->device.index, fields_.front().name, weft::name(t.device.type),
                               t.device.index));
        }
    }
    // Composite axes may have become known only by a later field.
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        if (!t || std::all_of(field.pattern.axes.begin(), field.pattern.axes.end(),
                              [](const AxisExpression& a) { return a.is_name(); })) {
            continue;
        }
        if (std::string problem = matcher.match(field.pattern, t); !problem.empty()) {
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
                   fmt::format("expected a value in [{}, {}], got {}", option.low, option.high, value));
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
    if (t.rank > kMaxRank) reject(name_, field.name, fmt::format("rank {} exceeds {}", t.rank, kMaxRank));
    for (int i = 0; i < t.rank; ++i) {
        if (t.shape[i] < 0)
            reject(name_, field.name, fmt::format("axis {} has negative size {}", i, t.shape[i]));
    }
    const bool empty =
        std::count(t.shape, t.shape + t.rank, 0) > 0;  // then strides mean nothing, and may be anything
    const auto rank = static_cast<std::size_t>(t.rank);
    if (is_too_large({t.shape, rank}, {t.stride, empty ? 0 : rank})) {
        reject(name_, field.name,
               fmt::format("is too large: [{}] with the strides [{}]",
                           fmt::join(t.shape, t.shape + t.rank, ", "),
                           fmt::join(t.stride, t.stride + t.rank, ", ")));
    }
    for (int i = 0; i < t.rank && !empty; ++i) {
        if (t.shape[i] > 1 && (t.stride[i] < 0 || (t.stride[i] == 0 && field.writes()))) {
            reject(name_, field.name,
                   fmt::format(
                       "axis {} has stride {}: {}", i, t.stride[i],
                       t.stride[i] < 0 ? "strides must not be negative" : "an output can't be broadcast"));
        }
    }
    const AxisPattern& axes =
        pattern(field, [&](int i) { return !!tensor(op, fields_[static_cast<std::size_t>(i)]); });
    if (std::string problem = matcher.match(axes, t); !problem.empty()) {
        reject(name_, field.name, std::move(problem));
    }
    if (empty) return;
    if (bits(t.dtype) < 8 && !rows_begin_at_bytes(t)) {
        reject(
            name_, field.name,
            fmt::format(
                "two elements share a byte: the last axis and the strides of the others must be even, got {}",
                to_string(t)));
    }
    if (t.data == nullptr) reject(name_, field.name, "is a null pointer");
    const auto align = static_cast<std::size_t>(bytes(t.dtype, 1));
    if (reinterpret_cast<std::uintptr_t>(t.data) % align != 0) {
        reject(name_, field.name, fmt::format("must be aligned to its element of {} bytes", align));
    }
    const int last = t.rank - 1;
    const bool inner = t.rank == 0 || t.shape[last] <= 1 || t.stride[last] == 1;
    if (field.layout == Layout::dense && !t.is_dense()) {
        reject(name_, field.name, fmt::format("must be dense (row-major, no gaps), got {}", to_string(t)));
    }
    if ((field.layout == Layout::rows || field.layout == Layout::inner) && !inner) {
        reject(name_, field.name, fmt::format("the last axis must be contiguous, got {}", to_string(t)));
    }
    if (field.layout == Layout::rows && t.rank > 2 && !fold_rows(t)) {
        reject(name_, field.name,
               fmt::format("the leading axes must fold into rows of one stride, got {}", to_string(t)));
    }
    if (field.writes() && overlaps_itself(t)) {
        reject(name_, field.name, fmt::format("its own elements must not overlap, got {}", to_string(t)));
    }
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
            if (kNarrow.contains(o.dtype)) return;
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

Work Contract::work(const void* op) const {
    if (work_) return work_(op);
    Work work{.flops = flops_ ? flops_(op) : 0};
    if (flops_operand_ >= 0) work.math = tensor(op, fields_[static_cast<std::size_t>(flops_operand_)]).dtype;
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        if (t)
            work.bytes +=
                static_cast<double>(bytes(t.dtype, t.distinct())) * (field.role == Role::inout ? 2 : 1);
    }
    return work;
}

bool Contract::is_empty(const void* op) const {
    return std::all_of(fields_.begin(), fields_.end(), [&](const Field& field) {
        return !field.writes() || !tensor(op, field) || tensor(op, field).numel() == 0;
    });
}

}  // namespace weft
