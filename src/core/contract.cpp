// Contract: a description, put together and checked for contradictions.
#include "weft/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

// A description that contradicts itself.
[[noreturn]] void misdescribed(const std::string& op, const std::string& field, std::string message) {
    throw Error(ErrorCode::internal, op, field, "its description " + std::move(message));
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

// The index of the word for an enumerator; -1 for one that the option does not have.
double choice_of(const Option& option, std::int32_t enumerator) {
    const auto at = std::find(option.enumerators.begin(), option.enumerators.end(), enumerator);
    return at == option.enumerators.end() ? -1 : static_cast<double>(at - option.enumerators.begin());
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
    if (std::string rule = field.fill.rule(); !rule.empty()) rules.push_back(std::move(rule));
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
        case Option::Kind::choice: return choice_of(option, peek<std::int32_t>(op, option.offset));
    }
    return 0;
}

void Contract::set(void* op, const Option& option, double value) {
    switch (option.kind) {
        case Option::Kind::real: return poke(op, option.offset, static_cast<float>(value));
        case Option::Kind::integer: return poke(op, option.offset, static_cast<std::int64_t>(value));
        case Option::Kind::boolean: return poke(op, option.offset, value != 0);
        case Option::Kind::choice:
            return poke(op, option.offset, option.enumerators[static_cast<std::size_t>(value)]);
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

Work Contract::work(const void* op) const {
    if (work_) return work_(op);
    Work work{.flops = flops_ ? flops_(op) : 0};
    if (flops_operand_ >= 0) work.math = tensor(op, fields_[static_cast<std::size_t>(flops_operand_)]).dtype;
    for (const Field& field : fields_) {
        const Tensor& t = tensor(op, field);
        if (!t) continue;
        double moved =
            static_cast<double>(bytes(t.dtype, t.distinct())) * (field.role == Role::inout ? 2 : 1);
        // Of a table no more rows than are picked, as if no two were the same.
        if (const int index = field.picked_by.empty() ? -1 : find_field(field.picked_by); index >= 0) {
            const Tensor& picks = tensor(op, fields_[static_cast<std::size_t>(index)]);
            if (picks && t.dim(0) > picks.numel())
                moved *= static_cast<double>(picks.numel()) / static_cast<double>(t.dim(0));
        }
        work.bytes += moved;
    }
    return work;
}

bool Contract::is_empty(const void* op) const {
    return std::all_of(fields_.begin(), fields_.end(), [&](const Field& field) {
        return !field.writes() || !tensor(op, field) || tensor(op, field).numel() == 0;
    });
}

}  // namespace weft
