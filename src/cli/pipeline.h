// Where models built of ops register, to be run by name: `weft run NAME`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace weft::cli {

struct PipelineCommand {
    std::string name, description;
    std::function<void(CommandLine&)> options;  // declares them; null: none
    std::function<int()> run;                   // after parsing; returns the exit code, throws weft::Error
    std::string help;                           // below the options: examples
};

inline std::vector<PipelineCommand>& pipelines() {
    static std::vector<PipelineCommand> registered;
    return registered;
}

// `static const RegisterPipeline kEncoder{{.name = "pi05-encoder", ...}};` The one named "demo" is `weft
// demo`.
struct RegisterPipeline {
    explicit RegisterPipeline(PipelineCommand command) { pipelines().push_back(std::move(command)); }
};

}  // namespace weft::cli
