// Which CUDA thread runs next: the queue of those ready, suspension, the end of a thread, and what a fault
// stops. Nothing here is visible to ThreadSanitizer, and nothing goes through the standard library's
// templates, whose instrumented copies the linker might choose.
#include "emulator/async_operation.h"
#include "emulator/runtime.h"
#include "weft/error.h"

namespace weft::emulator {

WEFT_THREAD_LOCAL Thread* current_thread = nullptr;

namespace {

WEFT_THREAD_LOCAL Runtime* current_runtime = nullptr;

// A loop that waits for a value lets the others run this often in vain before it counts as a deadlock.
constexpr unsigned kIdleYields = 1'000'000;

}  // namespace

WEFT_UNINSTRUMENTED Runtime& Runtime::here() { return current_runtime ? *current_runtime : make(); }

Runtime& Runtime::make() {
    static thread_local Runtime runtime;
    current_runtime = &runtime;
    return runtime;
}

Runtime::~Runtime() {
    const Unobserved scope;
    current_runtime = nullptr;
    async.reset();
    fibers_.clear();
}

WEFT_UNINSTRUMENTED void Runtime::make_ready(Thread& thread) {
    thread.state = State::ready;
    idle_yields = 0;
    ready_.push(thread);
}

// Leaves `from` for the thread `next`, or for the OS thread's own stack where there is none.
WEFT_UNINSTRUMENTED void Runtime::resume(Fiber& from, Thread* next) {
    current_thread = next;
    Fiber::switch_between(from, next ? *next->fiber : main_);
}

// Lets asynchronous operations go on where no thread can, and sometimes before.
WEFT_UNINSTRUMENTED Thread* Runtime::next_thread() {
    while (async->pending() && !failed_ && !abandoned_) {
        if (!async->due(*this)) {
            if (Thread* next = ready_.pop()) return next;
        }
        try {
            async->perform_one(*this);
        } catch (...) {
            fail(std::current_exception());
        }
    }
    return ready_.pop();
}

// The launch stops every thread once it gets the word.
WEFT_UNINSTRUMENTED void Runtime::fail(std::exception_ptr failure) {
    const Unobserved scope;
    if (!failed_) failure_ = failure;
    failed_ = true;
    ready_.clear();
}

WEFT_UNINSTRUMENTED void Runtime::suspend(Thread& thread) {
    Thread* next = next_thread();
    if (next == &thread) return;
    resume(*thread.fiber, next);
    if (abandoned_) throw Abandoned{};
}

WEFT_UNINSTRUMENTED void Runtime::yield(Thread& thread) {
    if (++idle_yields > kIdleYields) {
        fault("waits in a loop for a value that no running thread writes (blocks run one after another)");
    }
    if (idle_yields % 64 == 63 && async->pending()) {
        try {
            async->perform_one(*this);
        } catch (...) {
            fail(std::current_exception());
        }
    }
    ready_.push_last(thread);
    suspend(thread);
}

WEFT_UNINSTRUMENTED void Runtime::let_others_run(Thread& thread) {
    make_ready(thread);
    suspend(thread);
}

WEFT_UNINSTRUMENTED void Runtime::run_until_idle() {
    if (Thread* next = ready_.pop()) resume(main_, next);
}

// A fiber runs one CUDA thread after another and is never left.
WEFT_UNINSTRUMENTED void Runtime::run_fiber(Fiber& self) {
    for (;;) {
        Runtime& runtime = here();
        runtime.run_thread(*current_thread);
        runtime.resume(self, runtime.next_thread());
    }
}

WEFT_UNINSTRUMENTED void Runtime::run_thread(Thread& thread) {
    thread.started = true;
    try {
        Block& block = *thread.block;
        if (!config->dependent) tsan_acquire(block.syncs->start.cell[0]);
        if (!block.started) start_shared(*this, block);
        block.started = true;
        kernel_(arguments_);
        check_exit(thread);
    } catch (const Abandoned&) {
    } catch (...) {
        fail(std::current_exception());
    }
    thread.state = State::exited;
    idle_yields = 0;
    if (thread.copies) drop_copies(thread);
    if (thread.flight) drop_flight(thread);
    tsan_release(launch_end);
}

// Stops every thread that waits, so that its fiber can be used again: each leaves its kernel by an exception.
WEFT_UNINSTRUMENTED void Runtime::abandon() {
    abandoned_ = true;
    ready_.clear();
    for (unsigned i = 0; i < thread_count_; ++i) {
        Thread& thread = threads_[i];
        if (thread.started && thread.state != State::exited) resume(main_, &thread);
        ready_.clear();
    }
    abandoned_ = false;
}

WEFT_UNINSTRUMENTED void yield() {
    Thread& thread = self();
    Runtime::here().yield(thread);
}

}  // namespace weft::emulator
