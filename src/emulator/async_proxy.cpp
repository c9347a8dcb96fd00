// The queue of asynchronous operations, and shared memory as they see it.
#include "emulator/async_proxy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "emulator/async_operation.h"

namespace weft::emulator {
namespace {

// Operations take turns with this many of ThreadSanitizer's fibers: what one did is in order with what the
// one before it on the same fiber did, so few of them would hide races.
constexpr size_t kOperationFibers = 16;

SharedObject* object_at(Runtime& runtime, Block& block, const char* place) {
    const auto holds = [place](const SharedObject& object) {
        return object.base && place >= object.data && place < object.data + object.bytes;
    };
    if (holds(block.dynamic)) return &block.dynamic;
    for (unsigned i = 0; i < runtime.shared_key_count; ++i) {
        if (holds(block.objects[i])) return &block.objects[i];
    }
    return nullptr;
}

SharedObject* object_at(Runtime& runtime, const char* place) {
    for (unsigned rank = 0; rank < runtime.config->cluster; ++rank) {
        if (SharedObject* object = object_at(runtime, runtime.blocks[rank], place)) return object;
    }
    return nullptr;
}

// The object that holds `bytes` from `place` on, with its view made.
SharedObject& viewed(Runtime& runtime, const char* place, size_t bytes) {
    SharedObject* object = object_at(runtime, place);
    if (!object || place + bytes > object->data + object->bytes) {
        fault(fmt::format("an asynchronous operation reaches {} bytes at {}, outside of its shared memory",
                          bytes, fmt::ptr(place)));
    }
    if (!object->view) {
        object->view = static_cast<char*>(std::malloc(object->bytes));
        if (!object->view) throw std::bad_alloc();
        std::memset(object->view, runtime.poison, object->bytes);
    }
    return *object;
}

void make_visible(Runtime& runtime, SharedObject& object) {
    if (!object.base) return;
    viewed(runtime, object.data, 0);
    std::memcpy(object.view, object.data, object.bytes);
}

// Whether an operation that is issued now meets one that is still on its way.
const char* collision(const AsyncOperation& now, const AsyncOperation& before) {
    const auto meet = [](const std::vector<Span>& some, const std::vector<Span>& others) {
        for (const Span& one : some) {
            for (const Span& other : others) {
                if (one.meets(other)) return true;
            }
        }
        return false;
    };
    if (!before.done && meet(now.writes, before.writes))
        return "writes shared memory into which is on its way";
    if (!before.done && meet(now.reads, before.writes)) return "reads shared memory into which is on its way";
    if (!before.sources_read && meet(now.writes, before.reads))
        return "overwrites shared memory that is still read by";
    return nullptr;
}

void check_apart(const AsyncOperation& now, const AsyncOperation& before) {
    if (before.line && before.line == now.line) return;  // in order
    if (const char* how = collision(now, before)) {
        fault(fmt::format("{} {} {} ({})", now.what, how, before.what, place(before.where)));
    }
}

// Where the operation writes one whole chunk of 16 bytes, and touches no more; else null.
const char* stored_chunk(const AsyncOperation& operation) {
    if (!operation.reads.empty() || operation.writes.size() != 1) return nullptr;
    const auto [first, end] = operation.writes.front();
    return end - first == 16 && reinterpret_cast<uintptr_t>(first) % 16 == 0 ? first : nullptr;
}

}  // namespace

Block* owner_of(Runtime& runtime, const void* shared) {
    const Unobserved scope;
    for (unsigned rank = 0; rank < runtime.config->cluster; ++rank) {
        Block& block = runtime.blocks[rank];
        if (object_at(runtime, block, static_cast<const char*>(shared))) return &block;
    }
    return nullptr;
}

char* place_in(Runtime& runtime, Block& to, const void* shared) {
    const Unobserved scope;
    const char* place = static_cast<const char*>(shared);
    Block* from = owner_of(runtime, shared);
    if (!from || from == &to) return const_cast<char*>(place);
    if (object_at(runtime, *from, place) == &from->dynamic)
        return to.dynamic.data + (place - from->dynamic.data);
    const auto index = object_at(runtime, *from, place) - from->objects;
    return to.objects[index].base ? to.objects[index].data + (place - from->objects[index].data) : nullptr;
}

void check_visible(Runtime& runtime, const AsyncOperation& operation, const std::vector<Chunk>& chunks) {
    const SharedObject* object = nullptr;
    for (const Chunk& chunk : chunks) {
        if (chunk.bytes == 0) continue;
        if (!object || chunk.at < object->data || chunk.at + chunk.bytes > object->data + object->bytes) {
            object = &viewed(runtime, chunk.at, chunk.bytes);
        }
        if (std::memcmp(object->view + (chunk.at - object->data), chunk.at, chunk.bytes) == 0) continue;
        fault(fmt::format(
            "{} ({}) reads shared memory that threads have written without fence_proxy_async, or after the "
            "operation was issued ({} bytes from byte {} on)",
            operation.what, place(operation.where), chunk.bytes, chunk.at - object->data));
    }
}

bool in_words(const void* place) { return reinterpret_cast<uintptr_t>(place) % 8 == 0; }

// No locals in memory: they would be this CUDA thread's, and so would their races.
__attribute__((noinline)) void copy_chunk(char* to, const char* from, size_t bytes) {
    if (bytes == 16 && in_words(from) && in_words(to)) {
        reinterpret_cast<uint64_t*>(to)[0] = reinterpret_cast<const uint64_t*>(from)[0];
        reinterpret_cast<uint64_t*>(to)[1] = reinterpret_cast<const uint64_t*>(from)[1];
        return;
    }
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
}
__attribute__((noinline)) void clear_chunk(char* to) {
    reinterpret_cast<uint64_t*>(to)[0] = reinterpret_cast<uint64_t*>(to)[1] = 0;
}
__attribute__((noinline)) void read_chunks(const Chunk* chunk, size_t count) {
    for (const Chunk* end = chunk + count; chunk != end; ++chunk) {
        if (chunk->bytes == 16 && in_words(chunk->at)) {
            static_cast<void>(reinterpret_cast<const volatile uint64_t*>(chunk->at)[0]);
            static_cast<void>(reinterpret_cast<const volatile uint64_t*>(chunk->at)[1]);
            continue;
        }
        for (size_t i = 0; i < chunk->bytes; ++i) {
            static_cast<void>(static_cast<const volatile char*>(chunk->at)[i]);
        }
    }
}

void see(Runtime& runtime, const Span& span) {
    const Unobserved scope;
    const auto bytes = static_cast<size_t>(span.end - span.first);
    const SharedObject& object = viewed(runtime, span.first, bytes);
    std::memcpy(object.view + (span.first - object.data), span.first, bytes);
}

void poison_visible(Runtime& runtime, char* shared, size_t bytes) {
    {
        const Unobserved scope;
        const SharedObject& object = viewed(runtime, shared, bytes);
        std::memset(object.view + (shared - object.data), runtime.poison, bytes);
    }
    std::memset(shared, runtime.poison, bytes);
}

void fence_proxy_async() {
    fence_mbarrier_init();
    const Unobserved scope;
    Runtime& runtime = Runtime::here();
    Block& block = *self().block;
    tsan_release(block.syncs->proxy.cell[0]);
    make_visible(runtime, block.dynamic);
    for (unsigned i = 0; i < runtime.shared_key_count; ++i) make_visible(runtime, block.objects[i]);
}

uint32_t shared_window(const void* shared) {
    const SharedObject& dynamic = self().block->dynamic;
    const char* place = static_cast<const char*>(shared);
    if (!dynamic.base || place < dynamic.data || place > dynamic.data + dynamic.bytes) {
        fault("the address of a matrix descriptor is outside of this block's dynamic shared memory");
    }
    return static_cast<uint32_t>(1024 + reinterpret_cast<uintptr_t>(dynamic.data) % 1024 +
                                 static_cast<size_t>(place - dynamic.data));
}

// ---- operations ----

// Whatever is looked up is looked up before the switch: it belongs to the CUDA thread.
WEFT_UNINSTRUMENTED AsOperation::AsOperation([[maybe_unused]] Runtime& runtime, AsyncOperation& operation,
                                             [[maybe_unused]] void* issued)
    : sync_(operation.sync.get()), launch_end_(runtime.launch_end) {
#if WEFT_TSAN
    thread_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(runtime.async->next_fiber(), __tsan_switch_to_fiber_no_sync);
    tsan_acquire(issued ? issued : sync_->cell[0]);
#endif
}

WEFT_UNINSTRUMENTED AsOperation::~AsOperation() {
#if WEFT_TSAN
    tsan_release(sync_->cell[1]);
    tsan_release(launch_end_);
    __tsan_switch_to_fiber(thread_, __tsan_switch_to_fiber_no_sync);
#endif
}

WEFT_UNINSTRUMENTED AsProxy::AsProxy([[maybe_unused]] Runtime& runtime, [[maybe_unused]] const Block& block,
                                     AsyncOperation& operation)
    : sync_(operation.sync.get()), launch_end_(runtime.launch_end) {
#if WEFT_TSAN
    thread_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(runtime.async->next_reader(), __tsan_switch_to_fiber_no_sync);
    tsan_acquire(block.syncs->proxy.cell[0]);
#endif
}

WEFT_UNINSTRUMENTED AsProxy::~AsProxy() {
#if WEFT_TSAN
    tsan_release(sync_->cell[1]);
    tsan_release(launch_end_);
    __tsan_switch_to_fiber(thread_, __tsan_switch_to_fiber_no_sync);
#endif
}

AsyncProxy::AsyncProxy() = default;

AsyncProxy::~AsyncProxy() {
#if WEFT_TSAN
    for (void* fiber : fibers_) __tsan_destroy_fiber(fiber);
    for (void* fiber : readers_) __tsan_destroy_fiber(fiber);
#endif
}

void* AsyncProxy::next_of([[maybe_unused]] std::vector<void*>& fibers, [[maybe_unused]] size_t& turn) {
#if WEFT_TSAN
    if (fibers.size() < kOperationFibers) {
        fibers.push_back(make_tsan_fiber());
        __tsan_set_fiber_name(fibers.back(), "an asynchronous operation");
    }
    return fibers[turn++ % fibers.size()];
#else
    return nullptr;
#endif
}

void AsyncProxy::start(Runtime& runtime) {
    constexpr unsigned kEagerness[] = {0, 0, 1, 8, 64};
    eagerness_ = runtime.order == 0 ? 0 : kEagerness[runtime.random(std::size(kEagerness))];
}

void AsyncProxy::clear() {
    operations_.clear();
    chunk_stores_.clear();
    others_.clear();
    count_ = 0;
}

void AsyncProxy::submit(Runtime& runtime, const Operation& operation) {
    if (const char* chunk = stored_chunk(*operation)) {
        for (const AsyncOperation* before : others_) check_apart(*operation, *before);
        const auto [at, is_new] = chunk_stores_.emplace(chunk, operation.get());
        if (!is_new) check_apart(*operation, *at->second);
    } else {
        for (const Operation& before : operations_) check_apart(*operation, *before);
        others_.push_back(operation.get());
    }
    operations_.push_back(operation);
    count_ = operations_.size();
    while (eagerness_ == 1 && count_ > 0) perform_one(runtime);
}

WEFT_UNINSTRUMENTED bool AsyncProxy::due(Runtime& runtime) const {
    return count_ > 0 && eagerness_ > 1 && runtime.random(eagerness_) == 0;
}

// In order 0 the oldest, else any one of which no older is of the same line.
void AsyncProxy::perform_one(Runtime& runtime) {
    const Unobserved scope;
    size_t index = runtime.order == 0 ? 0 : runtime.random(count_);
    const void* line = operations_[index]->line;
    for (size_t i = 0; line && i < index; ++i) {
        if (operations_[i]->line == line) index = i;
    }
    const Operation operation = operations_[index];
    Thread* running = current_thread;
    current_thread = operation->issuer;  // whom a fault is reported of
    try {
        operation->done = operation->perform(runtime);
    } catch (...) {
        current_thread = running;
        throw;
    }
    current_thread = running;
    operation->sources_read = true;
    if (operation->done) {
        operations_.erase(operations_.begin() + static_cast<ptrdiff_t>(index));
        if (const char* chunk = stored_chunk(*operation)) {
            chunk_stores_.erase(chunk);
        } else {
            std::erase(others_, operation.get());
        }
    }
    count_ = operations_.size();
    Thread* thread = operation->waiting;
    operation->waiting = nullptr;
    while (thread) {
        Thread* next = thread->next;
        runtime.make_ready(*thread);
        thread = next;
    }
}

const AsyncOperation* AsyncProxy::first_in(const Block& block) const {
    Runtime& runtime = Runtime::here();
    const auto inside = [&](const std::vector<Span>& spans) {
        return std::any_of(spans.begin(), spans.end(),
                           [&](const Span& span) { return owner_of(runtime, span.first) == &block; });
    };
    for (const Operation& operation : operations_) {
        if (inside(operation->writes) || (!operation->sources_read && inside(operation->reads))) {
            return operation.get();
        }
    }
    return nullptr;
}

WEFT_UNINSTRUMENTED void wait_for(Thread& thread, AsyncOperation& operation, bool sources_only,
                                  const char* what, const Where& where) {
    Runtime& runtime = Runtime::here();
    while (!operation.done && !(sources_only && operation.sources_read)) {
        thread.state = State::at_async;
        thread.what = what;
        thread.where = where;
        thread.next = operation.waiting;
        operation.waiting = &thread;
        runtime.suspend(thread);
    }
    tsan_acquire(operation.sync->cell[1]);
}

// A block's shared memory goes with it.
void check_no_operation(Runtime& runtime, const Block& block) {
    if (!runtime.async->pending()) return;
    const Unobserved scope;
    if (const AsyncOperation* operation = runtime.async->first_in(block)) {
        fault(fmt::format("the block ends while {} ({}) still uses its shared memory", operation->what,
                          place(operation->where)));
    }
}

}  // namespace weft::emulator
