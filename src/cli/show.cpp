// weft show: all that is known of an op, from its contract.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/op_page.h"
#include "cli/select.h"

namespace weft::cli {
namespace {

const char* role_name(Role role) { return role == Role::in ? "in" : role == Role::out ? "out" : "in-out"; }

nlohmann::json to_json(const OpEntry& op) {
    const Contract& c = op.contract();
    nlohmann::json fields = nlohmann::json::array(), options = nlohmann::json::array(), implementations;
    for (const Field& f : c.fields()) {
        std::vector<std::string> dtypes;
        for (int i = 0; i < kDTypeCount; ++i) {
            if (f.dtypes.contains(static_cast<DType>(i))) dtypes.emplace_back(name(static_cast<DType>(i)));
        }
        fields.push_back({{"name", f.name},
                          {"role", role_name(f.role)},
                          {"optional", f.optional},
                          {"axes", f.axes},
                          {"dtypes", dtypes},
                          {"in_place_of", f.in_place_of},
                          {"meaning", f.meaning}});
    }
    for (const Option& o : c.options()) {
        nlohmann::json option = {
            {"name", o.name}, {"meaning", o.meaning}, {"default", option_text(o, o.initial)}};
        if (o.kind == Option::Kind::choice) option["choices"] = o.choices;
        if (o.kind == Option::Kind::real || o.kind == Option::Kind::integer)
            option["range"] = {o.low, o.high};
        options.push_back(std::move(option));
    }
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

struct Arguments {
    std::string op;
    bool json = false, markdown = false;
};

int show(const Arguments& a) {
    const OpEntry& op = pick_op(a.op);
    if (a.json) {
        std::cout << to_json(op).dump(2) << "\n";
    } else {
        std::cout << (a.markdown ? markdown_page(op) : text_page(op));
    }
    return kPassed;
}

}  // namespace

Command show_command() {
    return {"show", "All about one op: formula, fields, options, tolerance, implementations",
            "Shapes are written in axis names: 'rows dim' is a matrix, '... dim' any leading axes, "
            "'2*hidden' twice an\n"
            "axis. What one call may look like follows from this page: `weft verify OP` draws its cases from "
            "it.\n\n"
            "Examples:\n  weft show gemm\n  weft show rms_norm --json\n"
            "  weft show rms_norm --markdown    the op's page of docs/ops\n",
            [](CLI::App& app) -> std::function<int()> {
                auto a = std::make_shared<Arguments>();
                app.add_option("op", a->op, "its name")->required();
                app.add_flag("--json", a->json, "print JSON");
                app.add_flag("--markdown", a->markdown, "print the documentation page");
                return [a] { return show(*a); };
            }};
}

}  // namespace weft::cli
