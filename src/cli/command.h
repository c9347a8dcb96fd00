// What a command of the tool is, and the table of all.
#pragma once

#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/command_line.h"

namespace weft::cli {

// Exit codes that scripts can use.
enum Exit : int {
    kPassed = 0,
    kWrong = 1,        // something wrong was found: a result, a kernel, this machine
    kUsage = 2,        // the command line, a case line or a file is not what it should be
    kUnsupported = 3,  // no implementation, or no such device or part here
};

// Ends a command with a message on stderr.
class Failure : public std::runtime_error {
   public:
    Failure(Exit code, const std::string& message) : std::runtime_error(message), code_(code) {}
    Exit code() const { return code_; }

   private:
    Exit code_;
};

struct Command {
    std::string name, summary;
    std::string help;  // below the options: what it does, examples
    // Declares arguments and options; returns what runs after they were parsed.
    std::function<std::function<int()>(CommandLine&)> declare;
};

Command list_command();
Command show_command();
Command verify_command();
Command fuzz_command();
Command explain_command();
Command ladder_command();
Command bench_command();
Command tune_command();
Command run_command();
Command task_command();
Command demo_command();
Command make_checkpoint_command();
Command doctor_command();
Command completion_command();

const std::vector<Command>& commands();  // in the order of the help

// The whole tool: parses, runs, reports errors on stderr, returns the exit code.
int run_tool(int argc, const char* const* argv);

}  // namespace weft::cli
