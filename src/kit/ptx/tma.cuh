// Bulk copies between global and shared memory (SM 9.0, the copy engine): boxes of tensors that a TensorMap
// describes, and plain runs of bytes. One thread issues a copy for the block.
//
// A load completes its bytes (always the whole box) at an mbarrier of each block that it goes to. A store is
// waited for in groups, by the thread that issued it. Boxes lie in shared memory at multiples of 128 bytes,
// with a swizzle of S bytes at multiples of 8 S: chunk c of row r (of S bytes) lies where swizzled() says.
#pragma once

#if defined(WEFT_EMULATOR)
#include <algorithm>
#include <vector>

#include "emulator/async_proxy.h"
#endif

#include "kit/ptx/mbarrier.cuh"
#include "kit/tensor_map.h"

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
namespace detail {

// Element by element: the pieces of a box from `at` on.
inline std::vector<emulator::CopyPiece> pieces_of(const TensorLayout& t, const int* at) {
    std::vector<emulator::CopyPiece> pieces;
    const int64_t element = t.element_bytes, inner = t.box[0] * element;
    unsigned rows = 1;
    for (int axis = 1; axis < t.axes; ++axis) rows *= t.box[axis];
    for (unsigned row = 0; row < rows; ++row) {
        bool inside = true;
        int64_t offset = at[0] * element;
        for (unsigned axis = 1, rest = row; axis < static_cast<unsigned>(t.axes); rest /= t.box[axis++]) {
            const int64_t index = at[axis] + static_cast<int64_t>(rest % t.box[axis]);
            inside = inside && index >= 0 && index < static_cast<int64_t>(t.size[axis]);
            offset += index * static_cast<int64_t>(t.stride[axis]);
        }
        const int64_t size = static_cast<int64_t>(t.size[0]) * element, start = at[0] * element;
        for (int64_t chunk = 0; chunk < inner; chunk += 16) {
            const int64_t first = std::clamp<int64_t>(-(start + chunk), 0, 16);
            const int64_t end = inside ? std::clamp<int64_t>(size - (start + chunk), first, 16) : first;
            const auto place = static_cast<unsigned>(row * inner + chunk);
            pieces.push_back({swizzled(t.swizzle, place), static_cast<uint16_t>(first),
                              static_cast<uint16_t>(end - first),
                              static_cast<char*>(t.data) + (offset + chunk + first)});
        }
    }
    return pieces;
}

inline std::vector<emulator::CopyPiece> pieces_of(const void* global, unsigned bytes) {
    std::vector<emulator::CopyPiece> pieces;
    for (unsigned at = 0; at < bytes; at += 16) {
        pieces.push_back({at, 0, 16, static_cast<char*>(const_cast<void*>(global)) + at});
    }
    return pieces;
}

// What the engine traps on (an illegal instruction), and what it would write beyond the tensor; seen on an H200.
template <int Axes>
void check_box(const char* what, const void* shared, const TensorLayout& t, const int (&at)[Axes],
               bool stores) {
    const auto fault = [&](const char* why) { emulator::fault(std::string(what) + ": " + why); };
    if (t.axes != Axes) fault("not as many coordinates as the tensor has axes");
    emulator::check_aligned(what, shared,
                            t.swizzle == Swizzle::none ? 128 : 8 * static_cast<size_t>(t.swizzle));
    const int64_t element = t.element_bytes, size = static_cast<int64_t>(t.size[0]) * element;
    if (at[0] * element % 16 != 0) fault("the box does not begin at a multiple of 16 bytes along axis 0");
    if (!stores) return;
    if (std::ranges::any_of(at, [](int i) { return i < 0; })) fault("a store to a negative coordinate");
    if (size % 16 != 0 && at[0] * element < size && at[0] * element + t.box[0] * element > size)
        fault("the last 16 bytes of a row are written whole, beyond the tensor");
}

inline void check_run(const char* what, const void* shared, const void* global, unsigned bytes) {
    emulator::check_aligned(what, shared, 16);
    emulator::check_aligned(what, global, 16);
    if (bytes == 0 || bytes % 16 != 0) emulator::fault(std::string(what) + ": not whole 16 bytes");
}

}  // namespace detail
#endif

// Fetches the description, which is otherwise fetched at the first copy.
__device__ __forceinline__ void tma_prefetch([[maybe_unused]] const TensorMap& map) {
#if !defined(WEFT_EMULATOR) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

#define WEFT_TMA_LOAD(axes, hint, policy, coordinates, ...)                                               \
    asm volatile("cp.async.bulk.tensor." axes ".shared::cluster.global.mbarrier::complete_tx::bytes" hint \
                 " [%0], [%1, " coordinates "], [%2]" policy ";" ::"r"(shared_address(shared)),           \
                 "l"(&map), "r"(shared_address(barrier)), "l"(evicted_first), __VA_ARGS__                 \
                 : "memory")
#define WEFT_TMA_LOAD_AXES(hint, policy)                                                              \
    if constexpr (Axes == 2) {                                                                        \
        WEFT_TMA_LOAD("2d", hint, policy, "{%4, %5}", "r"(at[0]), "r"(at[1]));                        \
    } else if constexpr (Axes == 3) {                                                                 \
        WEFT_TMA_LOAD("3d", hint, policy, "{%4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]));        \
    } else if constexpr (Axes == 4) {                                                                 \
        WEFT_TMA_LOAD("4d", hint, policy, "{%4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]),     \
                      "r"(at[3]));                                                                    \
    } else {                                                                                          \
        WEFT_TMA_LOAD("5d", hint, policy, "{%4, %5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), \
                      "r"(at[3]), "r"(at[4]));                                                        \
    }
#define WEFT_TMA_MULTICAST(axes, coordinates, ...)                                                        \
    asm volatile(                                                                                         \
        "cp.async.bulk.tensor." axes                                                                      \
        ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, " coordinates \
        "], [%2], %3;" ::"r"(shared_address(shared)),                                                     \
        "l"(&map), "r"(shared_address(barrier)), "h"(ranks), __VA_ARGS__                                  \
        : "memory")
#define WEFT_TMA_STORE(axes, coordinates, ...)                                                   \
    asm volatile("cp.async.bulk.tensor." axes ".global.shared::cta.bulk_group [%0, " coordinates \
                 "], [%1];" ::"l"(&map),                                                         \
                 "r"(shared_address(shared)), __VA_ARGS__                                        \
                 : "memory")

// Loads the box from element `at` on (axis 0 first, a multiple of 16 bytes; may begin outside of the tensor). kOnce: it
// is not read again soon, and what is has precedence in L2.
template <int Axes, bool kOnce = false>
__device__ __forceinline__ void tma_load(void* shared, const TensorMap& map, Mbarrier* barrier,
                                         const int (&at)[Axes] WEFT_WHERE) {
    static_assert(Axes >= 2 && Axes <= 5);
#if defined(WEFT_EMULATOR)
    detail::check_box("tma_load", shared, map.layout, at, false);
    emulator::bulk_load("tma_load", shared, detail::pieces_of(map.layout, at), map.layout.box_bytes(),
                        barrier, 1u << emulator::cluster_rank(), where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint64_t evicted_first = 0;
    if constexpr (kOnce) {
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(evicted_first));
        WEFT_TMA_LOAD_AXES(".L2::cache_hint", ", %3")
    } else {
        WEFT_TMA_LOAD_AXES("", "")
    }
#else
    __trap();
#endif
}

// The same into the same place of every block of the cluster whose bit is set in `ranks`; completes at the
// barrier in the same place there.
template <int Axes>
__device__ __forceinline__ void tma_load_multicast(void* shared, const TensorMap& map, Mbarrier* barrier,
                                                   const int (&at)[Axes], uint16_t ranks WEFT_WHERE) {
    static_assert(Axes >= 2 && Axes <= 5);
#if defined(WEFT_EMULATOR)
    detail::check_box("tma_load_multicast", shared, map.layout, at, false);
    emulator::bulk_load("tma_load_multicast", shared, detail::pieces_of(map.layout, at),
                        map.layout.box_bytes(), barrier, ranks, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (Axes == 2) {
        WEFT_TMA_MULTICAST("2d", "{%4, %5}", "r"(at[0]), "r"(at[1]));
    } else if constexpr (Axes == 3) {
        WEFT_TMA_MULTICAST("3d", "{%4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]));
    } else if constexpr (Axes == 4) {
        WEFT_TMA_MULTICAST("4d", "{%4, %5, %6, %7}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
    } else {
        WEFT_TMA_MULTICAST("5d", "{%4, %5, %6, %7, %8}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                           "r"(at[4]));
    }
#else
    __trap();
#endif
}

// Stores the box; what threads wrote to it must have been fenced (fence_proxy_async). `at` is not negative, and
// axis 0 has whole 16 bytes where the box reaches beyond it.
template <int Axes>
__device__ __forceinline__ void tma_store(const TensorMap& map, const void* shared,
                                          const int (&at)[Axes] WEFT_WHERE) {
    static_assert(Axes >= 2 && Axes <= 5);
#if defined(WEFT_EMULATOR)
    detail::check_box("tma_store", shared, map.layout, at, true);
    emulator::bulk_store("tma_store", shared, detail::pieces_of(map.layout, at), where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (Axes == 2) {
        WEFT_TMA_STORE("2d", "{%2, %3}", "r"(at[0]), "r"(at[1]));
    } else if constexpr (Axes == 3) {
        WEFT_TMA_STORE("3d", "{%2, %3, %4}", "r"(at[0]), "r"(at[1]), "r"(at[2]));
    } else if constexpr (Axes == 4) {
        WEFT_TMA_STORE("4d", "{%2, %3, %4, %5}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]));
    } else {
        WEFT_TMA_STORE("5d", "{%2, %3, %4, %5, %6}", "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
                       "r"(at[4]));
    }
#else
    __trap();
#endif
}

#undef WEFT_TMA_LOAD
#undef WEFT_TMA_LOAD_AXES
#undef WEFT_TMA_MULTICAST
#undef WEFT_TMA_STORE

// A run of `bytes`, a multiple of 16, 16-byte aligned on both sides.
__device__ __forceinline__ void bulk_load(void* shared, const void* global, unsigned bytes,
                                          Mbarrier* barrier WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::check_run("bulk_load", shared, global, bytes);
    emulator::bulk_load("bulk_load", shared, detail::pieces_of(global, bytes), bytes, barrier,
                        1u << emulator::cluster_rank(), where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(shared)),
        "l"(global), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
#else
    __trap();
#endif
}

__device__ __forceinline__ void bulk_store(void* global, const void* shared, unsigned bytes WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::check_run("bulk_store", shared, global, bytes);
    emulator::bulk_store("bulk_store", shared, detail::pieces_of(global, bytes), where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global),
                 "r"(shared_address(shared)), "r"(bytes)
                 : "memory");
#else
    __trap();
#endif
}

// Makes a group of this thread's stores since the last commit.
__device__ __forceinline__ void bulk_commit() {
#if defined(WEFT_EMULATOR)
    emulator::bulk_commit();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Waits until at most the Newest last groups of this thread are in flight. A block must have waited, for the
// sources at least, before it ends or writes there again.
template <int Newest>
__device__ __forceinline__ void bulk_wait(WEFT_WHERE_ONLY) {
#if defined(WEFT_EMULATOR)
    emulator::bulk_wait(Newest, false, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Newest) : "memory");
#endif
}

// The same, until their sources have been read.
template <int Newest>
__device__ __forceinline__ void bulk_wait_sources(WEFT_WHERE_ONLY) {
#if defined(WEFT_EMULATOR)
    emulator::bulk_wait(Newest, true, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Newest) : "memory");
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
