// Rendering an op's page.
#include "cli/op_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/select.h"
#include "verify/generate.h"

namespace weft::cli {
namespace {

std::string role_text(const Field& f) {
    std::string text = f.role == Role::in ? "in" : f.role == Role::out ? "out" : "in-out";
    if (f.optional) text += ", optional";
    return text;
}

std::string layout_text(Layout layout) {
    switch (layout) {
        case Layout::rows: return "rows of one stride";
        case Layout::dense: return "dense";
        case Layout::inner: return "last axis contiguous";
        case Layout::strided: return "any strides";
    }
    return {};
}

std::string meaning_text(const Contract& c, const Field& f) {
    std::string text = f.meaning;
    if (!f.in_place_of.empty())
        text += fmt::format("; may be the memory of {}", fmt::join(f.in_place_of, " or "));
    for (const std::string& rule : c.rules(f)) text += "; " + rule;
    return text;
}

std::string range_text(const Option& o) {
    switch (o.kind) {
        case Option::Kind::choice: return fmt::format("{}", fmt::join(o.choices, ", "));
        case Option::Kind::boolean: return "true, false";
        default: return fmt::format("{:g} to {:g}", o.low, o.high);
    }
}

// A case line of the op, drawn from its contract: always the same one.
std::string example(const OpEntry& op) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Random random(seed);
        const auto c = generate(op, device_info(kCpu), random, {});
        if (!c || c->contract().fields().empty()) continue;
        bool plain = true;
        for (const TensorSpec& t : c->tensors) {
            if (t.present) plain = plain && t.stride.empty() && t.offset == 0 && t.alias < 0 && t.span() > 1;
        }
        if (plain) return c->line();
    }
    return {};
}

std::vector<std::vector<std::string>> field_rows(const Contract& c) {
    std::vector<std::vector<std::string>> rows;
    for (const Field& f : c.fields()) {
        rows.push_back({f.name, role_text(f), "[" + f.axes + "]", dtypes_text(f.dtypes),
                        layout_text(f.layout), meaning_text(c, f)});
    }
    return rows;
}

std::vector<std::vector<std::string>> option_rows(const Contract& c) {
    std::vector<std::vector<std::string>> rows;
    for (const Option& o : c.options())
        rows.push_back({o.name, option_text(o, o.initial), range_text(o), o.meaning});
    return rows;
}

const std::vector<std::string> kFieldHeads = {"field", "role", "shape", "dtypes", "layout", "meaning"};
const std::vector<std::string> kOptionHeads = {"option", "default", "values", "meaning"};

std::string escape(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
}

std::string markdown_table(const std::vector<std::string>& heads,
                           const std::vector<std::vector<std::string>>& rows) {
    std::string text = fmt::format("| {} |\n|", fmt::join(heads, " | "));
    for (std::size_t i = 0; i < heads.size(); ++i) text += "---|";
    for (const auto& row : rows) {
        text += "\n|";
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string cell = escape(row[i]);
            text += i == 0 || heads[i] == "shape" ? fmt::format(" `{}` |", cell) : fmt::format(" {} |", cell);
        }
    }
    return text + "\n";
}

}  // namespace

std::string text_page(const OpEntry& op) {
    const Contract& c = op.contract();
    auto fields = field_rows(c), options = option_rows(c);
    fields.insert(fields.begin(), {"FIELD", "ROLE", "SHAPE", "DTYPES", "LAYOUT", "MEANING"});
    options.insert(options.begin(), {"OPTION", "DEFAULT", "VALUES", "MEANING"});
    std::string text = fmt::format("{}: {}\n\n{}", c.name(), c.formula(), table(fields, "  "));
    if (options.size() > 1) text += "\n" + table(options, "  ");
    text += fmt::format("\nTolerance: {}\n", c.tolerance());
    if (!c.deterministic()) text += "Not deterministic: it uses atomics.\n";
    text += fmt::format("Replaces: {}\n\nImplementations, best first:\n", c.source());
    for (const DeviceType type : {DeviceType::cpu, DeviceType::cuda, DeviceType::emulator}) {
        std::vector<std::string> names;
        for (const AnyImplementation& i : op.implementations[static_cast<int>(type)]) names.push_back(i.name);
        text += fmt::format("  {:<9} {}\n", name(type),
                            names.empty() ? "none in this build" : fmt::format("{}", fmt::join(names, ", ")));
    }
    return text + fmt::format("\nExample:\n  weft verify '{}'\n", example(op));
}

std::string markdown_page(const OpEntry& op) {
    const Contract& c = op.contract();
    std::string text = fmt::format(
        "# {}\n\nRendered from the op's contract by `weft show {} --markdown`; how it is built and "
        "why: [ops/{}/README.md](../../ops/{}/README.md).\n\n    {}\n\n## Fields\n\n{}",
        c.name(), c.name(), c.name(), c.name(), c.formula(), markdown_table(kFieldHeads, field_rows(c)));
    if (!c.options().empty()) text += "\n## Options\n\n" + markdown_table(kOptionHeads, option_rows(c));
    text += fmt::format(
        "\n## Numerics\n\nAn output element is right within half an ulp of its dtype plus: {}.\n{}",
        c.tolerance(),
        c.deterministic() ? "The same inputs on the same device give the same bits.\n"
                          : "Not deterministic: it uses atomics.\n");
    return text + fmt::format("\n## Replaces\n\n{}.\n\n## A case\n\n    {}\n", c.source(), example(op));
}

}  // namespace weft::cli
