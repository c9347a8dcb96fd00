// Describe's untyped half: from its arguments to a Contract.
#include <algorithm>

#include "weft/contract.h"

namespace weft {

Description::Description(std::string_view name, std::string_view formula, std::size_t size,
                         void (*construct)(void*)) {
    c_.name_ = name;
    c_.formula_ = formula;
    c_.size_ = size;
    c_.construct_ = construct;
}
Description::Description(const Description&) = default;
Description::~Description() = default;

void Description::add_field(std::string_view name, std::size_t offset, std::string_view axes, DTypeSet dtypes,
                            std::string_view meaning, Role role) {
    Field field;
    field.name = name;
    field.axes = axes;
    field.meaning = meaning;
    field.role = role;
    field.dtypes = dtypes;
    field.offset = offset;
    c_.add_field(std::move(field));
}

void Description::add_option(std::string_view name, std::size_t offset, Option::Kind kind, double low,
                             double high, std::string_view meaning, std::initializer_list<double> samples,
                             const void* op) {
    Option option;
    option.name = name;
    option.meaning = meaning;
    option.kind = kind;
    option.low = low;
    option.high = high;
    option.samples = samples;
    option.offset = offset;
    option.initial = Contract::get(op, option);
    c_.add_option(std::move(option));
}

void Description::add_choice(std::string_view name, std::size_t offset, std::string_view meaning,
                             std::initializer_list<std::string_view> choices, const void* op) {
    Choices all;
    for (const std::string_view choice : choices)
        all.emplace_back(choice, static_cast<std::int32_t>(all.size()));
    add_choice(name, offset, meaning, std::move(all), op);
}

void Description::add_choice(std::string_view name, std::size_t offset, std::string_view meaning,
                             Choices&& choices, const void* op) {
    add_option(name, offset, Option::Kind::choice, 0, static_cast<double>(choices.size()) - 1, meaning, {},
               op);
    Option& option = c_.options_.back();
    for (const auto& [word, enumerator] : choices) {
        option.samples.push_back(static_cast<double>(option.choices.size()));
        option.choices.emplace_back(word);
        option.enumerators.push_back(enumerator);
    }
    option.initial = Contract::get(op, option);
}

Field& Description::last_field() { return c_.fields_.back(); }

void Description::relate_dtypes(std::string_view other, DTypeChoices&& choices) {
    c_.add_relation(Relation::Kind::dtype_beside, std::string(other), std::move(choices));
}
void Description::set_sizes_by_dtype(std::string_view axis, DTypeSizes&& sizes) {
    c_.add_sizes(axis, std::move(sizes));
}
void Description::relate(Relation::Kind kind, std::string_view other) {
    c_.add_relation(kind, std::string(other));
}

void Description::add_in_place_of(std::string_view input) { last_field().in_place_of.emplace_back(input); }

void Description::set_fill(Fill&& fill) { last_field().fill = std::move(fill); }

void Description::set_picked_by(std::string_view index, std::string_view axes) {
    Field& field = last_field();
    field.picked_pattern = AxisPattern::parse(axes, c_.axes_);
    field.picked_by = index;
    field.picked_axes = axes;
}

void Description::add_rule(OpFunction<std::optional<Violation>()> rule) { c_.requirements_.push_back(rule); }

void Description::set_work(OpFunction<Work()> work) { c_.work_ = work; }

void Description::set_flops(OpFunction<double()> flops) { c_.flops_ = flops; }

void Description::set_flops(OpFunction<double()> flops, std::size_t operand) {
    set_flops(flops);
    const auto field = std::find_if(c_.fields_.begin(), c_.fields_.end(),
                                    [&](const Field& f) { return f.offset == operand; });
    if (field == c_.fields_.end()) {
        throw Error(ErrorCode::internal, c_.name_, "flops", "its operand is described after it, or never");
    }
    c_.flops_operand_ = static_cast<int>(field - c_.fields_.begin());
}

void Description::set_sizes(std::string_view axis, std::initializer_list<std::int64_t> sizes) {
    const auto i = static_cast<std::size_t>(c_.axes_.add(axis));
    if (c_.sizes_.size() <= i) c_.sizes_.resize(i + 1);
    c_.sizes_[i] = sizes;
}

void Description::set_independent(std::initializer_list<std::string_view> axes) {
    c_.independent_.assign(axes.begin(), axes.end());
}

void Description::set_tolerance(std::string_view rule) { c_.tolerance_ = rule; }

void Description::set_source(std::string_view source) { c_.source_ = source; }

Contract Description::finish() {
    c_.finish();
    return std::move(c_);
}

}  // namespace weft
