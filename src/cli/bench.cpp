// weft bench: device times, checked first.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/select.h"

namespace weft::cli {

Command bench_command() {
    return {"bench", "Measure device time, beside the floor; --host: the host's cost of a call", "",
            [](CLI::App&) -> std::function<int()> {
                return []() -> int {
                    throw Failure(kUnsupported, "no CUDA device can be used here (`weft doctor` says why)");
                };
            }};
}

}  // namespace weft::cli
