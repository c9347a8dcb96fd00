// The marks, and the environment that chooses a mutant.
#include "sites/reached.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

extern "C" __attribute__((
    weak)) int weft_instrumented;  // of an instrumented object; in any other library at no address

namespace weft::sites {
namespace {

constexpr int kPage = 4096;
static_assert(kMost % kPage == 0);

int from_environment() {
    const char* number = std::getenv("WEFT_MUTANT");
    return number != nullptr ? std::atoi(number) : -1;
}

// The file's pages take the place of the marks' own: so what a process has marked is there however it ends, and so is
// what its children mark, those of a death test as well.
bool keep_in_file(unsigned char* marks) {
    const char* path = std::getenv("WEFT_REACHED");
    if (path == nullptr || !instrumented()) return false;
    const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return false;
    static unsigned char before[kMost];
    std::copy_n(marks, kMost, before);
    const bool kept = ::ftruncate(file, kMost) == 0 &&
                      ::mmap(marks, kMost, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == marks;
    ::close(file);
    for (int i = 0; kept && i < kMost; ++i) marks[i] |= before[i];
    return kept;
}

}  // namespace

int chosen = from_environment();
alignas(kPage) unsigned char reached[kMost] = {};
static const bool kept = keep_in_file(reached);

bool instrumented() { return &weft_instrumented != nullptr; }

}  // namespace weft::sites
