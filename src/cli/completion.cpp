// weft completion: words for the shell to offer.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "weft/device_info.h"
#include "weft/op.h"

namespace weft::cli {
namespace {

constexpr const char* kScript = R"bash(# bash completion of weft: eval "$(weft completion bash)"
_weft() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}}
    local choices=""
    case $before in
        --device) choices="cpu emulator cuda"; [ "$command" = explain ] && choices="$choices {devices}" ;;
        --values) choices="usual wide tiny constant special rising ties all" ;;
        --workload | --dump | --out | --checkpoint) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --dtype) choices="bf16 fp16 fp32" ;;
    esac
    if [ -z "$choices" ] && [ "$COMP_CWORD" -eq 1 ]; then
        choices="{commands} --help --version"
    elif [ -z "$choices" ]; then
        case $command in
{options}
        esac
    fi
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
}}
complete -F _weft weft ./weft
)bash";

std::vector<std::string> ops() {
    std::vector<std::string> names;
    for (const OpEntry* op : all_ops()) names.push_back(op->contract().name());
    return names;
}

std::vector<std::string> words_after(const Command& command) {
    CommandLine line;
    command.declare(line);
    std::vector<std::string> words = {"--help"};
    for (const Argument& argument : line.all()) {
        if (argument.name().starts_with("--")) words.push_back(argument.name());
    }
    const bool takes_ops = command.name == "show" || command.name == "verify" || command.name == "fuzz" ||
                           command.name == "explain" || command.name == "bench" || command.name == "tune";
    if (takes_ops) {
        for (const std::string& op : ops()) words.push_back(op);
    }
    for (const std::string& name : line.subcommands()) words.push_back(name);
    if (command.name == "completion") words.emplace_back("bash");
    return words;
}

int print(const std::string& shell) {
    if (shell != "bash")
        throw Failure(kUsage, fmt::format("completion for '{}' is not there: expected bash", shell));
    std::vector<std::string> names;
    std::string options;
    for (const Command& command : commands()) {
        names.push_back(command.name);
        options += fmt::format("            {}) choices=\"{}\" ;;\n", command.name,
                               fmt::join(words_after(command), " "));
    }
    options.pop_back();
    std::cout << fmt::format(kScript, fmt::arg("devices", fmt::join(device_names(), " ")),
                             fmt::arg("commands", fmt::join(names, " ")), fmt::arg("options", options));
    return kPassed;
}

}  // namespace

Command completion_command() {
    return {"completion", "Print the completion script of a shell",
            "Examples:\n  eval \"$(weft completion bash)\"\n  weft completion bash > "
            "~/.local/share/bash-completion/completions/weft\n",
            [](CommandLine& line) -> std::function<int()> {
                auto shell = std::make_shared<std::string>();
                line.add("shell", shell.get(), "bash").required();
                return [shell] { return print(*shell); };
            }};
}

}  // namespace weft::cli
