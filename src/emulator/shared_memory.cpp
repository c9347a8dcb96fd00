// Shared memory: one allocation for each object and block, poisoned at first, guarded on both sides.
//
// AddressSanitizer guards its own allocations, and what a block leaves behind is freed, so that an access
// from elsewhere in the cluster after the block's end is found. Other builds look at the guards when the
// block ends.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "emulator/runtime.h"

namespace weft::emulator {
namespace {

constexpr size_t kGuard = WEFT_ASAN ? 0 : 128;
constexpr char kGuardByte = '\xc3';
// CUDA promises 16 bytes for the dynamic array: give no more, where the sanitizer leaves the choice.
constexpr size_t kDynamicAlignment = 16, kDynamicOffset = WEFT_ASAN ? 0 : kDynamicAlignment;
// All blocks have it at the same place of this much, which is the longest period of a swizzle.
constexpr size_t kPeriod = 1024;

size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

SharedObject allocate(size_t bytes, size_t alignment, size_t offset, uint8_t poison) {
    const Unobserved scope;
    const size_t front = round_up(kGuard, alignment) + offset;
    void* base = nullptr;
    if (posix_memalign(&base, std::max<size_t>(alignment, 2 * kDynamicAlignment), front + bytes + kGuard) !=
        0) {
        throw std::bad_alloc();
    }
    SharedObject object{static_cast<char*>(base), static_cast<char*>(base) + front, bytes, nullptr};
    std::memset(object.base, kGuardByte, front);
    std::memset(object.data, poison, bytes);
    std::memset(object.data + bytes, kGuardByte, kGuard);
    return object;
}

// How many bytes before and after the object were written.
size_t damage(const SharedObject& object) {
    size_t bytes = 0;
    for (const char* p = object.base; p != object.data; ++p) bytes += *p != kGuardByte;
    const char* end = object.data + object.bytes;
    for (const char* p = end; p != end + kGuard; ++p) bytes += *p != kGuardByte;
    return bytes;
}

bool holds(const SharedObject& object, const void* address) {
    const char* p = static_cast<const char*>(address);
    return object.base && p >= object.data && p <= object.data + object.bytes;
}

// What a block of a cluster has before it starts is not there yet.
void close([[maybe_unused]] const SharedObject& object) {
#if WEFT_ASAN
    __asan_poison_memory_region(object.data, object.bytes);
#endif
}

void open([[maybe_unused]] const SharedObject& object) {
#if WEFT_ASAN
    __asan_unpoison_memory_region(object.data, object.bytes);
#endif
}

WEFT_UNINSTRUMENTED SharedObject& object_of(Runtime& runtime, Block& block, unsigned index) {
    SharedObject& object = block.objects[index];
    if (!object.base) {
        const SharedKey& key = runtime.shared_keys[index];
        object = allocate(key.bytes, key.alignment, 0, runtime.poison);
        if (!block.started) close(object);
    }
    return object;
}

WEFT_UNINSTRUMENTED unsigned add_key(Runtime& runtime, const void* key, size_t bytes, size_t alignment) {
    if (runtime.shared_key_count == kMaxSharedObjects) {
        fault(fmt::format("more than {} static shared objects", kMaxSharedObjects));
    }
    runtime.static_bytes = round_up(runtime.static_bytes, alignment) + bytes;
    if (runtime.static_bytes > kMaxStaticShared ||
        runtime.static_bytes + runtime.config->dynamic_shared > kMaxShared) {
        fault(fmt::format(
            "{} bytes of static and {} of dynamic shared memory: a block has {} static, {} in all",
            runtime.static_bytes, runtime.config->dynamic_shared, kMaxStaticShared, kMaxShared));
    }
    runtime.shared_keys[runtime.shared_key_count] = {key, bytes, alignment};
    return runtime.shared_key_count++;
}

}  // namespace

WEFT_UNINSTRUMENTED void* block_shared(const void* key, size_t bytes, size_t alignment) {
    Runtime& runtime = Runtime::here();
    unsigned index = 0;
    while (index < runtime.shared_key_count && runtime.shared_keys[index].key != key) ++index;
    if (index == runtime.shared_key_count) index = add_key(runtime, key, bytes, alignment);
    return object_of(runtime, *self().block, index).data;
}

WEFT_UNINSTRUMENTED void* dynamic_shared() { return self().block->dynamic.data; }

WEFT_UNINSTRUMENTED unsigned cluster_rank() { return self().block->rank; }
WEFT_UNINSTRUMENTED unsigned cluster_size() { return self().config->cluster; }

WEFT_UNINSTRUMENTED void* cluster_map(const void* shared, unsigned rank) {
    const Unobserved scope;
    Runtime& runtime = Runtime::here();
    Block& here = *self().block;
    if (rank >= runtime.config->cluster) {
        fault(fmt::format("cluster_map to rank {} of a cluster of {}", rank, runtime.config->cluster));
    }
    Block& there = runtime.blocks[rank];
    if (there.exited == there.count)
        fault(fmt::format("cluster_map to rank {}, whose block has ended", rank));
    if (holds(here.dynamic, shared)) {
        return there.dynamic.data + (static_cast<const char*>(shared) - here.dynamic.data);
    }
    for (unsigned i = 0; i < runtime.shared_key_count; ++i) {
        if (holds(here.objects[i], shared)) {
            return object_of(runtime, there, i).data +
                   (static_cast<const char*>(shared) - here.objects[i].data);
        }
    }
    fault("cluster_map of an address outside of its block's shared memory");
}

void set_up_shared(Runtime& runtime, Block& block) {
    if (runtime.config->dynamic_shared == 0) return;
    block.dynamic = allocate(runtime.config->dynamic_shared, kPeriod, kDynamicOffset, runtime.poison);
    close(block.dynamic);
}

// What another block of the cluster wrote before this one started is lost, as it may be on a GPU.
void start_shared(Runtime& runtime, Block& block) {
    const Unobserved scope;
    const auto start = [&](const SharedObject& object) {
        if (!object.base) return;
        open(object);
        if (runtime.config->cluster > 1) std::memset(object.data, runtime.poison, object.bytes);
    };
    start(block.dynamic);
    for (const SharedObject& object : block.objects) start(object);
}

void check_guards(Runtime& runtime, Block& block) {
    const Unobserved scope;
    if (!kGuard) return;
    size_t bytes = block.dynamic.base ? damage(block.dynamic) : 0;
    if (bytes > 0) {
        fault(fmt::format(
            "some thread of this block wrote {} bytes outside of its {} bytes of dynamic shared memory",
            bytes, block.dynamic.bytes));
    }
    for (unsigned i = 0; i < runtime.shared_key_count; ++i) {
        bytes = block.objects[i].base ? damage(block.objects[i]) : 0;
        if (bytes > 0) {
            fault(fmt::format(
                "some thread of this block wrote {} bytes outside of a static shared object of {} bytes",
                bytes, block.objects[i].bytes));
        }
    }
}

// At the block's end, and again at its cluster's.
void retire_shared(Runtime& runtime, Block& block, bool last_use) {
    const Unobserved scope;
    auto retire = [&](SharedObject& object) {
        if (!object.base) return;
        std::free(std::exchange(object.view, nullptr));
        if (last_use || WEFT_ASAN) {
            open(object);
            std::free(object.base);
            object = {};
        } else {
            std::memset(object.data, runtime.poison, object.bytes);
        }
    };
    retire(block.dynamic);
    for (SharedObject& object : block.objects) retire(object);
}

}  // namespace weft::emulator
