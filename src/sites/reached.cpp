// The marks, and the environment that chooses a mutant.
#include "sites/reached.h"

#include <cstdlib>
#include <fstream>

extern "C" __attribute__((
    weak)) int weft_instrumented;  // of an instrumented object; in any other library at no address

namespace weft::sites {
namespace {

int from_environment() {
    const char* number = std::getenv("WEFT_MUTANT");
    return number != nullptr ? std::atoi(number) : -1;
}

struct AtExit {
    ~AtExit() {
        const char* path = std::getenv("WEFT_REACHED");
        if (path == nullptr || !instrumented()) return;
        std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(reached), kMost);
    }
} at_exit;

}  // namespace

int chosen = from_environment();
unsigned char reached[kMost] = {};

bool instrumented() { return &weft_instrumented != nullptr; }

}  // namespace weft::sites
