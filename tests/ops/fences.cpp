// What lies behind an operand's last byte is no call's: each corpus with operands that end where memory does, so that a
// kernel that reads on dies. A load of which nothing is stored shows in no result, and else in AddressSanitizer alone.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <vector>

#include "verify/guided.h"
#include "verify/instance.h"
#include "verify/verify.h"

#if WEFT_HAS_EMULATOR && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace weft {
namespace {

std::string path_of(const OpEntry& op) {
    return WEFT_SOURCE_DIR "/tests/ops/corpus/" + op.contract().name() + ".txt";
}

// Memory that ends where a page begins that may not be touched: on the byte, or at the last multiple of 16 before.
class Fenced {
   public:
    Fenced(std::size_t bytes, std::size_t alignment) {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const std::size_t own = (bytes + page - 1) / page * page;
        size_ = own + page;
        memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory_ == MAP_FAILED) throw std::bad_alloc();
        mprotect(static_cast<char*>(memory_) + own, page, PROT_NONE);
        data_ = static_cast<char*>(memory_) + own - (bytes + alignment - 1) / alignment * alignment;
    }
    ~Fenced() { munmap(memory_, size_); }
    Fenced(const Fenced&) = delete;
    Fenced& operator=(const Fenced&) = delete;

    void* data() const { return data_; }

   private:
    void* memory_;
    std::size_t size_;
    char* data_;
};

// The case that runs, for whoever dies in it.
char running[4096];
void die(int signal) {
    [[maybe_unused]] const auto written = write(STDERR_FILENO, running, std::strlen(running));
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

void run_fenced(const Trial& trial, std::size_t alignment) {
    const Instance drawn(trial.c, kEmulator, trial.seed, trial.values);
    std::vector<std::unique_ptr<Fenced>> memory;
    std::vector<void*> bases;
    for (std::size_t i = 0; i < trial.c.tensors.size(); ++i) {
        const TensorSpec& spec = trial.c.tensors[i];
        bases.push_back(nullptr);
        if (!spec.present || spec.alias >= 0) continue;
        const auto size = static_cast<std::size_t>(bytes(spec.dtype, spec.span()));
        const auto offset = static_cast<std::size_t>(bytes(spec.dtype, spec.offset));
        bases.back() = memory.emplace_back(std::make_unique<Fenced>(size, alignment))->data();
        if (size == 0) continue;
        std::memcpy(bases.back(), static_cast<const char*>(drawn.memory(i)) + drawn.first_byte(i) - offset,
                    size);
    }
    std::vector<std::max_align_t> call(trial.c.contract().size() / sizeof(std::max_align_t) + 1);
    trial.c.bind(call.data(), bases, kEmulator);
    Context context = context_for(trial.c.op(), kEmulator, trial.implementation);
    try {
        detail::run(trial.c.op(), call.data(), context);
    } catch (const Error& e) {  // the implementation wants other addresses
        if (alignment > 1 || e.code() != ErrorCode::unsupported) throw;
    }
}

class Fences : public testing::TestWithParam<const OpEntry*> {};

TEST_P(Fences, NothingBehindAnOperandIsTouched) {
    const auto before = std::signal(SIGSEGV, die);
    for (const Trial& trial : read_corpus(path_of(*GetParam()))) {
        const std::string line = "\nA byte behind an operand is touched in\n  " + trial.c.line() + "\n";
        std::strncpy(running, line.c_str(), sizeof(running) - 1);
        // Vectors where rows allow them; and elements, of which the last is the memory's.
        for (const std::size_t alignment : {16, 1})
            EXPECT_NO_THROW(run_fenced(trial, alignment)) << trial.c.line();
    }
    std::signal(SIGSEGV, before);
}

std::vector<const OpEntry*> ops_with_a_corpus() {
    std::vector<const OpEntry*> found;
    for (const OpEntry* op : all_ops()) {
        if (std::filesystem::exists(path_of(*op))) found.push_back(op);
    }
    return found;
}

INSTANTIATE_TEST_SUITE_P(Ops, Fences, testing::ValuesIn(ops_with_a_corpus()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
#endif
