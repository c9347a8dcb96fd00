// What a command line may hold, declared once: parsing, --help and the shell's completion read it. The parser
// itself (CLI11) is known to command_line.cpp alone, since including it costs more than compiling a command.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace weft::cli {

// One word or option. Its value goes into a variable of the command's, which holds the default until then.
class Argument {
   public:
    using Target =
        std::variant<bool*, int*, std::int64_t*, std::uint64_t*, float*, double*, std::string*,
                     std::optional<std::uint64_t>*, std::vector<std::string>*, std::vector<std::int64_t>*>;

    Argument(std::string name, Target target, std::string meaning)
        : name_(std::move(name)), meaning_(std::move(meaning)), target_(target) {}

    Argument& required() { return set(required_, true); }
    Argument& with_default() { return set(shows_default_, true); }  // --help shows the default
    Argument& by_comma() { return set(by_comma_, true); }           // several values in one word
    Argument& between(double low, double high) { return set(range_, std::pair(low, high)); }
    Argument& positive() { return set(positive_, true); }
    Argument& one_of(std::vector<std::string> words) { return set(choices_, std::move(words)); }

    const std::string& name() const { return name_; }  // "--seed"; without dashes: a word by its place

   private:
    friend class Parser;
    template <class T, class Value>
    Argument& set(T& member, Value&& value) {
        member = std::forward<Value>(value);
        return *this;
    }

    std::string name_, meaning_;
    Target target_;
    bool required_ = false, shows_default_ = false, by_comma_ = false, positive_ = false;
    std::optional<std::pair<double, double>> range_;
    std::vector<std::string> choices_;
};

class CommandLine {
   public:
    CommandLine() = default;
    CommandLine(std::string name, std::string summary, std::string help)
        : name_(std::move(name)), summary_(std::move(summary)), help_(std::move(help)) {}

    // A variable of bool is a flag. The reference is good until the next add().
    Argument& add(std::string name, Argument::Target target, std::string meaning) {
        return all_.emplace_back(std::move(name), target, std::move(meaning));
    }
    // All that follows the command's name, --help too, goes there as it is: another program reads it.
    void hand_over(std::vector<std::string>& into) { words_ = &into; }
    // Where there are subcommands, a command line names one of them. `help` comes below its options.
    CommandLine& subcommand(std::string name, std::string summary, std::string help) {
        subcommands_.push_back(
            std::make_unique<CommandLine>(std::move(name), std::move(summary), std::move(help)));
        return *subcommands_.back();
    }

    const std::string& name() const { return name_; }
    const std::vector<Argument>& all() const { return all_; }
    std::vector<std::string> subcommands() const;
    const std::string& chosen() const { return chosen_; }  // the subcommand of the parsed line

   private:
    friend class Parser;
    std::string name_, summary_, help_, chosen_;
    std::vector<Argument> all_;
    std::vector<std::string>* words_ = nullptr;
    std::vector<std::unique_ptr<CommandLine>> subcommands_;
};

// Fills the variables. Returns the exit code where the line asks for --help or --version, or is wrong, which
// stderr then says.
std::optional<int> parse(CommandLine& line, const std::string& version, int argc, const char* const* argv);

}  // namespace weft::cli
