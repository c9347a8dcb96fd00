// Shuffles and votes among all lanes of a warp. No lane may have exited or be elsewhere; none of these orders
// memory (that is __syncwarp).
#pragma once

#if defined(WEFT_EMULATOR)
#include <string>
#endif

#include "kit/target.h"

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
namespace detail {

inline int own_lane() { return static_cast<int>(emulator::self().lane); }

struct ShuffleLane {
    uint64_t value;
    uint64_t result;
    int source;  // lane; the model of every form computes it before the lanes meet
};

inline void complete_shuffle(void* const* lanes, uint32_t mask) {
    for (unsigned lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        auto& reader = *static_cast<ShuffleLane*>(lanes[lane]);
        const auto source = static_cast<unsigned>(reader.source);
        if ((mask >> source & 1) == 0) {
            emulator::fault_in_lane(lane, "shuffle: reads lane " + std::to_string(source) +
                                              ", which has exited or does not exist");
        }
        reader.result = static_cast<ShuffleLane*>(lanes[source])->value;
    }
}

struct VoteLane {
    bool predicate;
    uint32_t ballot;
};

inline void complete_vote(void* const* lanes, uint32_t mask) {
    uint32_t ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1) != 0 && static_cast<VoteLane*>(lanes[lane])->predicate) ballot |= 1u << lane;
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
        if ((mask >> lane & 1) != 0) static_cast<VoteLane*>(lanes[lane])->ballot = ballot;
    }
}

inline uint32_t vote(const char* what, bool predicate, const emulator::Where& where) {
    VoteLane lane{predicate, 0};
    emulator::warp_collective(what, &lane, &complete_vote, where);
    return lane.ballot;
}

template <typename T>
T shuffle_from(const char* what, T value, int source, const emulator::Where& where) {
    ShuffleLane lane{0, 0, source};
    __builtin_memcpy(&lane.value, static_cast<const void*>(&value), sizeof(T));
    emulator::warp_collective(what, &lane, &complete_shuffle, where);
    __builtin_memcpy(static_cast<void*>(&value), &lane.result, sizeof(T));
    return value;
}

}  // namespace detail
#else
namespace detail {

// Applies a shuffle of 32 bits to each half of a 64-bit value, or to the bits of any 32-bit type.
template <typename T, typename Shuffle>
__device__ __forceinline__ T shuffle_bits(T value, Shuffle shuffle) {
    uint32_t words[sizeof(T) / 4];
    memcpy(words, static_cast<const void*>(&value), sizeof(T));
#pragma unroll
    for (uint32_t& word : words) word = shuffle(word);
    memcpy(static_cast<void*>(&value), words, sizeof(T));
    return value;
}

}  // namespace detail
#endif

template <typename T>
inline constexpr bool kShuffled = (sizeof(T) == 4 || sizeof(T) == 8) && std::is_trivially_copyable_v<T>;

// The value of lane `own ^ lane_mask`. With a width below 32 (a power of two) each group of that many lanes
// is on its own, as in CUDA: a lane of a later group gives the own value.
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask, int width = 32 WEFT_WHERE) {
    static_assert(kShuffled<T>, "shuffles move 4 or 8 bytes");
#if defined(WEFT_EMULATOR)
    const int own = detail::own_lane(), from = own ^ lane_mask;
    const int last = (own & ~(width - 1)) | (width - 1);
    return detail::shuffle_from("shuffle_xor", value, from <= last ? from : own, where);
#else
    return detail::shuffle_bits(
        value, [=](uint32_t word) { return __shfl_xor_sync(0xffffffffu, word, lane_mask, width); });
#endif
}

// The value of lane `lane` of the group.
template <typename T>
__device__ __forceinline__ T shuffle(T value, int lane, int width = 32 WEFT_WHERE) {
    static_assert(kShuffled<T>, "shuffles move 4 or 8 bytes");
#if defined(WEFT_EMULATOR)
    const int group = detail::own_lane() & ~(width - 1);
    return detail::shuffle_from("shuffle", value, group | (lane & (width - 1)), where);
#else
    return detail::shuffle_bits(value,
                                [=](uint32_t word) { return __shfl_sync(0xffffffffu, word, lane, width); });
#endif
}

// The value of lane `own + delta`; the own value where that is beyond the group.
template <typename T>
__device__ __forceinline__ T shuffle_down(T value, unsigned delta, int width = 32 WEFT_WHERE) {
    static_assert(kShuffled<T>, "shuffles move 4 or 8 bytes");
#if defined(WEFT_EMULATOR)
    const int own = detail::own_lane(), from = own + static_cast<int>(delta);
    return detail::shuffle_from("shuffle_down", value, from <= (own | (width - 1)) ? from : own, where);
#else
    return detail::shuffle_bits(
        value, [=](uint32_t word) { return __shfl_down_sync(0xffffffffu, word, delta, width); });
#endif
}

// The value of lane `own - delta`; the own value where that is before the group.
template <typename T>
__device__ __forceinline__ T shuffle_up(T value, unsigned delta, int width = 32 WEFT_WHERE) {
    static_assert(kShuffled<T>, "shuffles move 4 or 8 bytes");
#if defined(WEFT_EMULATOR)
    const int own = detail::own_lane(), from = own - static_cast<int>(delta);
    return detail::shuffle_from("shuffle_up", value, from >= (own & ~(width - 1)) ? from : own, where);
#else
    return detail::shuffle_bits(
        value, [=](uint32_t word) { return __shfl_up_sync(0xffffffffu, word, delta, width); });
#endif
}

// One bit for each lane.
__device__ __forceinline__ uint32_t ballot(bool predicate WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    return detail::vote("ballot", predicate, where);
#else
    return __ballot_sync(0xffffffffu, predicate);
#endif
}

__device__ __forceinline__ bool any(bool predicate WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    return detail::vote("any", predicate, where) != 0;
#else
    return __any_sync(0xffffffffu, predicate) != 0;
#endif
}

__device__ __forceinline__ bool all(bool predicate WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    return detail::vote("all", !predicate, where) == 0;
#else
    return __all_sync(0xffffffffu, predicate) != 0;
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
