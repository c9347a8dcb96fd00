// weft run and weft demo: pipelines that registered themselves.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/pipeline.h"

namespace weft::cli {
namespace {

constexpr const char* kDemo = "demo";

std::function<int()> declare_pipelines(CommandLine& line) {
    for (const PipelineCommand& p : pipelines()) {
        if (p.name == kDemo) continue;
        CommandLine& sub = line.subcommand(p.name, p.description, p.help);
        if (p.options) p.options(sub);
    }
    return [&line] {
        for (const PipelineCommand& p : pipelines()) {
            if (p.name == line.chosen()) return p.run();
        }
        return static_cast<int>(kUsage);
    };
}

const PipelineCommand* find_demo() {
    for (const PipelineCommand& p : pipelines()) {
        if (p.name == kDemo) return &p;
    }
    return nullptr;
}

}  // namespace

Command run_command() {
    std::string names;
    for (const PipelineCommand& p : pipelines()) {
        if (p.name != kDemo) names += fmt::format("  weft run {:<16} {}\n", p.name, p.description);
    }
    return {"run", "Run a model built of ops",
            "Pipelines of this build:\n" + (names.empty() ? "  none\n" : names), declare_pipelines};
}

Command demo_command() {
    return {"demo", "Run a real transformer through weft's kernels, checked: the place to start",
            find_demo() != nullptr ? find_demo()->help : "", [](CommandLine& line) -> std::function<int()> {
                const PipelineCommand* demo = find_demo();
                if (demo != nullptr && demo->options) demo->options(line);
                return [demo] {
                    if (demo == nullptr) throw Failure(kUnsupported, "this build has no demo");
                    return demo->run();
                };
            }};
}

}  // namespace weft::cli
