// The command-line tool.
#include "cli/command.h"
#include "verify/trial.h"

#if WEFT_HAS_EMULATOR
#include "emulator/race_hook.h"
#endif

int main(int argc, char** argv) {
    weft::announce_deaths();
    return weft::cli::run_tool(argc, argv);
}
