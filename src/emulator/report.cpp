// What the emulator says: faults, deadlocks, and whose kernel a sanitizer's report is about.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>

#include "emulator/runtime.h"
#include "weft/error.h"

namespace weft::emulator {
namespace {

std::atomic<unsigned> races{0};

#if WEFT_ASAN
void name_kernel() {
    const std::string text = where_now();
    if (text.empty()) return;
    const std::string line = "weft emulator: " + text + "\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void after_asan_report(const char*) { name_kernel(); }
#endif

}  // namespace

unsigned race_reports() { return races.load(std::memory_order_relaxed); }

void count_race_report() { races.fetch_add(1, std::memory_order_relaxed); }

// The reports of ThreadSanitizer name their CUDA threads as the fibers are named.
void watch_sanitizers() {
#if WEFT_ASAN
    __asan_set_error_report_callback(&after_asan_report);
    // UBSan's library has a copy of everything, the death callback included.
    if (void* ubsan = dlopen("libubsan.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
        using Set = void (*)(void (*)());
        if (auto set = reinterpret_cast<Set>(dlsym(ubsan, "__sanitizer_set_death_callback")))
            set(&name_kernel);
        dlclose(ubsan);
    }
#endif
}

WEFT_UNINSTRUMENTED std::string place(const Where& where) {
    const char* name = where.file_name();
    if (const char* slash = std::strrchr(name, '/')) name = slash + 1;
    return fmt::format("{}:{}", name, where.line());
}

WEFT_UNINSTRUMENTED std::string index_text(const uint3& index) {
    const unsigned x = index.x, y = index.y, z = index.z;
    return fmt::format("({},{},{})", x, y, z);
}

WEFT_UNINSTRUMENTED std::string Runtime::describe(const Thread& thread) const {
    return fmt::format("kernel '{}', block {}, thread {}", config->name, index_text(thread.block_index),
                       index_text(thread.thread_index));
}

WEFT_UNINSTRUMENTED void Runtime::raise(const Thread& thread, const std::string& message) const {
    const std::string order_text = order ? fmt::format(" [order {}]", order) : "";
    throw Error(ErrorCode::emulator_fault, config->name, "",
                fmt::format("{}: {}{}", describe(thread), message, order_text));
}

void fault(const std::string& message) { Runtime::here().raise(self(), message); }

WEFT_UNINSTRUMENTED void fault_in_lane(unsigned lane, const std::string& message) {
    Runtime::here().raise(self().warp->lanes[lane], message);
}

void misaligned(const char* what, const void* address, size_t alignment) {
    fault(fmt::format("{}: address {} is not a multiple of {} bytes", what, fmt::ptr(address), alignment));
}

std::string where_now() { return current_thread ? Runtime::here().describe(self()) : std::string(); }

// Nobody can go on: says who waits for what, and names a thread of the smallest group, the likeliest culprit.
void Runtime::report_deadlock() {
    struct Group {
        unsigned count = 0;
        const Thread* first = nullptr;
    };
    std::map<std::string, Group> groups;
    unsigned exited = 0;
    for (unsigned i = 0; i < thread_count_; ++i) {
        const Thread& thread = threads_[i];
        if (thread.state == State::exited) {
            ++exited;
            continue;
        }
        std::string at = fmt::format("{} ({})", thread.what, place(thread.where));
        if (thread.state == State::at_mbarrier) at += " for " + emulator::describe(*thread.waits_for);
        Group& group = groups[at];
        if (group.count++ == 0) group.first = &thread;
    }
    const Thread* culprit = nullptr;
    unsigned fewest = ~0u;
    std::string text;
    for (const auto& [waits_at, group] : groups) {
        text += fmt::format("{}{} at {}, the first of them {} of block {}", text.empty() ? "" : "; ",
                            group.count, waits_at, index_text(group.first->thread_index),
                            index_text(group.first->block_index));
        if (group.count < fewest) {
            fewest = group.count;
            culprit = group.first;
        }
    }
    raise(*culprit, fmt::format("deadlock: no thread can go on: {}; {} have exited", text, exited));
}

}  // namespace weft::emulator
