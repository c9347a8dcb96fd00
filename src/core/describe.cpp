// Contracts and cases as JSON.
#include "core/describe.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace weft {
namespace {

const char* role_name(Role role) { return role == Role::in ? "in" : role == Role::out ? "out" : "in-out"; }

const char* layout_name(Layout layout) {
    switch (layout) {
        case Layout::rows: return "rows";
        case Layout::dense: return "dense";
        case Layout::inner: return "inner";
        case Layout::strided: return "strided";
    }
    return "";
}

const char* kind_name(Option::Kind kind) {
    switch (kind) {
        case Option::Kind::real: return "real";
        case Option::Kind::integer: return "integer";
        case Option::Kind::boolean: return "boolean";
        case Option::Kind::choice: return "choice";
    }
    return "";
}

nlohmann::json option_value(const Option& option, double value) {
    switch (option.kind) {
        case Option::Kind::choice: return option.choices[static_cast<std::size_t>(value)];
        case Option::Kind::boolean: return value != 0;
        case Option::Kind::integer: return static_cast<std::int64_t>(value);
        // The shortest decimal number that is this float: 1e-06, not 9.99999997e-07.
        case Option::Kind::real: return std::stod(fmt::format("{}", static_cast<float>(value)));
    }
    return {};
}

// The dtypes that a field may have, by another field and its dtype; the first of them by default.
nlohmann::json dtype_beside(const Contract& c, const Field& f) {
    auto beside = nlohmann::json::object();
    for (const Relation& relation : c.relations()) {
        if (&c.fields()[static_cast<std::size_t>(relation.field)] != &f) continue;
        if (relation.kind != Relation::Kind::dtype_beside) continue;
        auto& of_other = beside[c.fields()[static_cast<std::size_t>(relation.other)].name];
        for (const auto& [dtype, choices] : relation.choices) {
            auto& names = of_other[name(dtype)] = nlohmann::json::array();
            for (const DType choice : choices) names.push_back(name(choice));
        }
    }
    return beside;
}

// The fields whose dtype a field has where both are there.
nlohmann::json like(const Contract& c, const Field& f) {
    auto others = nlohmann::json::array();
    for (const Relation& relation : c.relations()) {
        if (relation.kind == Relation::Kind::same_dtype &&
            &c.fields()[static_cast<std::size_t>(relation.field)] == &f)
            others.push_back(c.fields()[static_cast<std::size_t>(relation.other)].name);
    }
    return others;
}

nlohmann::json describe(const Contract& c, const Field& f) {
    auto dtypes = nlohmann::json::array();
    for (int i = 0; i < kDTypeCount; ++i) {
        if (f.dtypes.contains(static_cast<DType>(i))) dtypes.push_back(name(static_cast<DType>(i)));
    }
    nlohmann::json field = {{"name", f.name},         {"role", role_name(f.role)},
                            {"optional", f.optional}, {"axes", f.axes},
                            {"dtypes", dtypes},       {"layout", layout_name(f.layout)},
                            {"meaning", f.meaning},   {"in_place_of", f.in_place_of},
                            {"rules", c.rules(f)}};
    if (f.partial) field["partial"] = true;
    if (!f.picked_by.empty()) field.update({{"picked_by", f.picked_by}, {"picked_axes", f.picked_axes}});
    if (f.sized_axis >= 0) {
        auto& sizes = field["sizes_by_dtype"] = nlohmann::json::object();
        for (const auto& [dtype, size] : f.sizes_by_dtype) sizes[name(dtype)] = size;
        field["sized_axis"] = c.axes().all()[static_cast<std::size_t>(f.sized_axis)];
    }
    if (auto beside = dtype_beside(c, f); !beside.empty()) field["dtype_beside"] = beside;
    if (auto others = like(c, f); !others.empty()) field["like"] = others;
    return field;
}

nlohmann::json describe(const Option& o) {
    nlohmann::json option = {{"name", o.name},
                             {"kind", kind_name(o.kind)},
                             {"default", option_value(o, o.initial)},
                             {"meaning", o.meaning}};
    if (o.kind == Option::Kind::choice) option["choices"] = o.choices;
    if (o.kind == Option::Kind::real || o.kind == Option::Kind::integer) option["range"] = {o.low, o.high};
    return option;
}

}  // namespace

nlohmann::json describe(const OpEntry& op) {
    const Contract& c = op.contract();
    auto fields = nlohmann::json::array(), options = nlohmann::json::array();
    auto implementations = nlohmann::json::object();
    for (const Field& f : c.fields()) fields.push_back(describe(c, f));
    for (const Option& o : c.options()) options.push_back(describe(o));
    for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda, DeviceType::emulator}) {
        auto& list = implementations[name(type)] = nlohmann::json::array();
        for (const AnyImplementation& i : op.implementations[static_cast<int>(type)]) list.push_back(i.name);
    }
    return {{"op", c.name()},
            {"formula", c.formula()},
            {"fields", fields},
            {"options", options},
            {"tolerance", c.tolerance()},
            {"replaces", c.source()},
            {"implementations", implementations},
            {"deterministic", c.deterministic()}};
}

nlohmann::json describe(const Case& c) {
    const Contract& contract = c.contract();
    auto tensors = nlohmann::json::object(), options = nlohmann::json::object();
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const TensorSpec& t = c.tensors[i];
        if (!t.present) continue;
        auto& entry = tensors[contract.fields()[i].name] = {{"dtype", name(t.dtype)}, {"shape", t.shape}};
        if (!t.stride.empty()) entry["stride"] = t.stride;
        if (t.offset != 0) entry["offset"] = t.offset;
        if (t.alias >= 0) entry["alias"] = contract.fields()[static_cast<std::size_t>(t.alias)].name;
    }
    for (std::size_t i = 0; i < c.options.size(); ++i) {
        const Option& option = contract.options()[i];
        options[option.name] = option_value(option, c.options[i]);
    }
    return {{"op", contract.name()}, {"case", c.line()}, {"tensors", tensors}, {"options", options}};
}

}  // namespace weft
