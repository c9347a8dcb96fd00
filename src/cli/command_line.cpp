// From declared arguments to CLI11's, and back.
#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <type_traits>

#include "cli/command.h"

namespace weft::cli {

class Parser {
   public:
    static void declare(CLI::App& app, CommandLine& line) {
        app.name(line.name_);
        app.description(line.summary_);
        if (!line.help_.empty()) app.footer("\n" + line.help_);
        for (const Argument& argument : line.all_) {
            std::visit([&](auto* target) { add(app, argument, *target); }, argument.target_);
        }
        if (line.words_ != nullptr) {
            app.prefix_command();
            app.set_help_flag();
        }
        if (!line.subcommands_.empty()) app.require_subcommand(1);
        for (auto& sub : line.subcommands_) {
            CLI::App* inner = app.add_subcommand(sub->name_);
            inner->callback([&line, &sub, inner] {
                line.chosen_ = sub->name_;
                if (sub->words_ != nullptr) *sub->words_ = inner->remaining();
            });
            declare(*inner, *sub);
        }
    }

   private:
    template <class T>
    static void add(CLI::App& app, const Argument& argument, T& target) {
        if constexpr (std::is_same_v<T, bool>) {
            app.add_flag(argument.name_, target, argument.meaning_);
        } else {
            CLI::Option* option = app.add_option(argument.name_, target, argument.meaning_);
            option->required(argument.required_);
            if (argument.by_comma_) option->delimiter(',');
            if (argument.positive_) option->check(CLI::PositiveNumber);
            if (!argument.choices_.empty()) option->check(CLI::IsMember(argument.choices_));
            if constexpr (std::is_arithmetic_v<T>) {
                if (argument.range_) {
                    const auto [low, high] = *argument.range_;
                    option->check(CLI::Range(static_cast<T>(low), static_cast<T>(high)));
                }
            }
            if (argument.shows_default_) option->capture_default_str();
        }
    }
};

std::vector<std::string> CommandLine::subcommands() const {
    std::vector<std::string> names;
    for (const auto& sub : subcommands_) names.push_back(sub->name_);
    return names;
}

std::optional<int> parse(CommandLine& line, const std::string& version, int argc, const char* const* argv) {
    CLI::App app;
    app.set_version_flag("--version", version);
    Parser::declare(app, line);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& e) {
        return app.exit(e);
    } catch (const CLI::ParseError& e) {
        const auto used = app.get_subcommands();
        const CLI::App& at = used.empty() ? app : *used[0];
        const std::vector<std::string> left = at.remaining();
        // The parser misses a subcommand before it looks at the words that it did not know.
        const bool misnamed = dynamic_cast<const CLI::RequiredError*>(&e) != nullptr && !left.empty();
        fmt::print(stderr, "weft: {}\n(see: weft{} --help)\n",
                   misnamed ? fmt::format("{} is not known here", left[0]) : e.what(),
                   used.empty() ? "" : " " + at.get_name());
        return kUsage;
    }
    return std::nullopt;
}

}  // namespace weft::cli
