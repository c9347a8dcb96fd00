// Fibers on Boost.Context's stack switch, with the sanitizers told of every switch.
#include "emulator/fiber.h"

#include <sys/mman.h>

#include <boost/context/detail/fcontext.hpp>
#include <new>

namespace weft::emulator {
namespace {

namespace boost_context = boost::context::detail;

constexpr size_t kPage = 4096;
// Instrumented frames are several times larger.
constexpr size_t kStackBytes = (WEFT_ASAN || WEFT_TSAN) ? 256 * 1024 : 64 * 1024;

// Stacks begin at different offsets in their pages, or the lines that every switch touches would all fall
// into the same few sets of the cache.
size_t next_offset() {
    constexpr size_t kLine = 64;
    static thread_local size_t count = 0;
    return count++ * (5 * kLine) % kPage;
}

}  // namespace

#if WEFT_TSAN
namespace {

struct Eldest {
    void* fiber = __tsan_create_fiber(0);
    ~Eldest() { __tsan_destroy_fiber(fiber); }
};

}  // namespace
#endif

WEFT_UNINSTRUMENTED void* make_tsan_fiber() {
#if WEFT_TSAN
    static thread_local const Eldest kEldest;
    void* here = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(kEldest.fiber, __tsan_switch_to_fiber_no_sync);
    void* made = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(here, __tsan_switch_to_fiber_no_sync);
    return made;
#else
    return nullptr;
#endif
}

struct Fiber::Start {
    // What runs first on a new stack.
    WEFT_UNINSTRUMENTED static void run(boost_context::transfer_t transfer) {
        auto** pair = static_cast<Fiber**>(transfer.data);
        Fiber& from = *pair[0];
        Fiber& self = *pair[1];
        arrive(from, transfer.fctx, nullptr);
        self.entry_(self);
    }

    WEFT_UNINSTRUMENTED static void arrive(Fiber& from, void* context, [[maybe_unused]] void* fake_stack) {
        from.context_ = context;
#if WEFT_ASAN
        __sanitizer_finish_switch_fiber(fake_stack, &from.bottom_, &from.size_);
#endif
    }
};

Fiber::Fiber() {
#if WEFT_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(Entry entry) : entry_(entry), size_(kStackBytes) {
    stack_ = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(stack_, kPage, PROT_NONE);
    bottom_ = static_cast<char*>(stack_) + kPage;
    const size_t usable = kStackBytes - next_offset();
    context_ = boost_context::make_fcontext(static_cast<char*>(stack_) + kPage + usable, usable, &Start::run);
#if WEFT_TSAN
    tsan_ = make_tsan_fiber();
#endif
}

Fiber::~Fiber() {
    if (!stack_) return;
#if WEFT_ASAN
    __asan_unpoison_memory_region(bottom_, size_);
#endif
#if WEFT_TSAN
    __tsan_destroy_fiber(tsan_);
#endif
    munmap(stack_, kPage + kStackBytes);
}

void Fiber::set_name([[maybe_unused]] const char* name) {
#if WEFT_TSAN
    __tsan_set_fiber_name(tsan_, name);
#endif
}

WEFT_UNINSTRUMENTED void Fiber::switch_between(Fiber& from, Fiber& to) {
    Fiber* pair[2] = {&from, &to};
#if WEFT_ASAN
    __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.size_);
#endif
#if WEFT_TSAN
    __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
    boost_context::transfer_t transfer = boost_context::jump_fcontext(to.context_, pair);
    Start::arrive(*static_cast<Fiber**>(transfer.data)[0], transfer.fctx, from.fake_stack_);
}

}  // namespace weft::emulator
