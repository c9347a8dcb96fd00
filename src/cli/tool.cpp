// The table of commands, parsing, and errors turned into exit codes.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/command.h"
#include "cli/select.h"
#include "weft/error.h"

namespace weft {
extern const char* const kVersion;
}

namespace weft::cli {
namespace {

Exit exit_code(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument:
        case ErrorCode::io: return kUsage;
        case ErrorCode::unsupported: return kUnsupported;
        default: return kWrong;
    }
}

int fail(Exit code, const std::string& message) {
    std::cout.flush();
    fmt::print(stderr, "weft: {}\n", message);
    return code;
}

int guarded(const std::function<int()>& run) {
    try {
        return run();
    } catch (const Failure& e) {
        return fail(e.code(), e.what());
    } catch (const Error& e) {
        return fail(exit_code(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        return fail(kUnsupported, "out of memory: the case needs more than this machine has");
    } catch (const std::exception& e) {
        return fail(kWrong,
                    fmt::format("{} (a defect of weft: please report it with the command line)", e.what()));
    }
}

std::vector<std::string> command_names() {
    std::vector<std::string> names;
    for (const Command& command : commands()) names.push_back(command.name);
    return names;
}

constexpr const char* kExit =
    "Exit codes: 0 passed, 1 something wrong was found, 2 bad usage, 3 unsupported or no such device here.\n"
    "Each command explains itself: weft COMMAND --help\n\n"
    "Examples:\n"
    "  weft list\n"
    "  weft show rms_norm\n"
    "  weft verify rms_norm\n"
    "  weft explain 'rms_norm x=bf16[4096,3072] weight=bf16[3072]' --device h100\n";

}  // namespace

const std::vector<Command>& commands() {
    static const std::vector<Command> kCommands = {
        demo_command(),   list_command(),       show_command(),   verify_command(),
        fuzz_command(),   explain_command(),    ladder_command(), bench_command(),
        tune_command(),   task_command(),       run_command(),    make_checkpoint_command(),
        doctor_command(), completion_command(),
    };
    return kCommands;
}

int run_tool(int argc, const char* const* argv) {
    CommandLine line("weft", "Fused inference kernels, each with an executable specification.", kExit);
    std::map<std::string, std::function<int()>> runs;
    for (const Command& command : commands()) {
        runs[command.name] = command.declare(line.subcommand(command.name, command.summary, command.help));
    }
    const std::vector<std::string> names = command_names();
    if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
        return fail(kUsage, fmt::format("there is no command '{}'{} (see: weft --help)", argv[1],
                                        suggestion(argv[1], names)));
    }
    if (const auto ended = parse(line, std::string("weft ") + kVersion, argc, argv)) return *ended;
    const int code = guarded(runs.at(line.chosen()));
    std::cout.flush();
    return std::cout ? code : kWrong;
}

}  // namespace weft::cli
