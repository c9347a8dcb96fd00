// Rotary embedding inside kernels: a block works out the angles of a few tokens once, for all their heads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kit/elementwise.cuh"
#include "kit/rotary.h"
#include "kit/target.h"
#include "kit/vector.cuh"
#include "weft/context.h"
#include "weft/device_info.h"
#include "weft/tensor.h"

namespace weft::inline WEFT_TARGET::kit {

inline constexpr int kTurnPairs = 128;  // pairs of a head that one launch turns; larger heads take several
inline constexpr int kTurnTokens = 4;   // tokens of a block, at most
inline constexpr int kTurnWidth = 8;    // pairs that a thread turns at a time

// What a kernel knows of the angles; `frequency` travels with the launch, so that every device has the host's
// bits.
struct Rotation {
    float frequency[kTurnPairs];
    int first = 0, count = 0;  // the launch's pairs
    int half = 0;              // pairs in a head
    int head_dim = 0;
    bool interleaved = false;
    const void* positions = nullptr;  // null: none
    bool wide_positions = false;
    std::int64_t start = 0;
    // Tables by position; null where angles are computed.
    const void *cos = nullptr, *sin = nullptr;
    DType table_dtype = DType::fp32;
    std::int64_t table = 0, cos_row = 0, cos_step = 0, sin_row = 0, sin_step = 0;

    __host__ __device__ bool is_first() const { return first == 0; }
};

// Host: how an op with fields positions, cos, sin and the option pairs turns its heads, from pair `first` on;
// all but the frequencies.
template <class Op>
Rotation rotation_of(const Op& op, std::int64_t head_dim, std::int64_t start, std::int64_t first) {
    Rotation r;
    r.first = static_cast<int>(first);
    r.half = static_cast<int>(op.rotated() / 2);
    r.count = std::min(kTurnPairs, r.half - r.first);
    r.head_dim = static_cast<int>(head_dim);
    r.interleaved = op.pairs == Op::Pairs::interleaved;
    r.start = start;
    if (op.positions) {
        r.positions = op.positions.data;
        r.wide_positions = op.positions.dtype == DType::int64;
    }
    if (op.cos) {
        r.cos = op.cos.data, r.cos_row = op.cos.stride[0], r.cos_step = op.cos.stride[1];
        r.sin = op.sin.data, r.sin_row = op.sin.stride[0], r.sin_step = op.sin.stride[1];
        r.table_dtype = op.cos.dtype;
        r.table = op.cos.dim(0);
    }
    return r;
}

// Host: the frequencies of a rotation; a context remembers the last ones, since a model has one base.
struct FrequencyCache {
    float base = 0;
    int half = 0, first = -1;
    float frequency[kTurnPairs];
};
inline void set_frequencies(Rotation& r, float base, Context& context) {
    if (r.cos != nullptr) return;
    auto& cache = context.slot<FrequencyCache>();
    if (cache.base != base || cache.half != r.half || cache.first != r.first) {
        cache.base = base, cache.half = r.half, cache.first = r.first;
        for (int i = 0; i < r.count; ++i)
            cache.frequency[i] = rotary_frequency(base, 2 * r.half, r.first + i);
    }
    std::copy(cache.frequency, cache.frequency + r.count, r.frequency);
}

// Host: launches that turn all pairs of a head.
inline std::int64_t turn_launches(std::int64_t rotated) {
    return std::max<std::int64_t>(1, (rotated / 2 + kTurnPairs - 1) / kTurnPairs);
}

// Host: whether all units of heads of `head_dim` elements are whole and aligned: both vectors of a unit begin
// at multiples of one, and no unit is a part.
inline bool heads_whole(std::int64_t head_dim, std::int64_t rotated) {
    return rotated / 2 % kTurnWidth == 0 && (head_dim - rotated) % (2 * kTurnWidth) == 0;
}

struct alignas(16) Turns {
    float cos[kTurnTokens][kTurnPairs], sin[kTurnTokens][kTurnPairs];
};

__device__ __forceinline__ std::int64_t position_at(const Rotation& r, std::int64_t offset) {
    return r.wide_positions ? static_cast<const std::int64_t*>(r.positions)[offset]
                            : static_cast<const std::int32_t*>(r.positions)[offset];
}

// The launch's frequencies as memory. The compiler, left to itself, reads a parameter through the constant
// bank, which serves one address at a time: 32 for the neighbouring pairs of a warp.
__device__ __forceinline__ const float* frequencies(const Rotation& r) {
    const float* from = r.frequency;
#if !defined(WEFT_EMULATOR)
    asm volatile("" : "+l"(from));
#endif
    return from;
}

// A head is cut into units of 8 pairs to turn, then units of 16 elements to copy: those beyond the rotated
// ones, which the launch of the first pairs takes along. A unit is two vectors of 8 elements, far apart: half of the
// stretch that they are of. So neighbouring lanes move neighbouring vectors, and whole sectors of memory.
__host__ __device__ inline int turn_units(const Rotation& r) {
    return (r.count + kTurnWidth - 1) / kTurnWidth;
}
__host__ __device__ inline int copy_units(int elements) {
    return (elements + 2 * kTurnWidth - 1) / (2 * kTurnWidth);
}
__host__ __device__ inline int head_units(const Rotation& r) {
    return turn_units(r) + (r.is_first() ? copy_units(r.head_dim - 2 * r.half) : 0);
}

struct UnitPlace {
    int at[2];     // where the vectors begin, from the head on
    int count[2];  // how many elements of them there are; not positive: none
    int turned;    // the unit's number among those that turn; -1 where elements are copied
};
// Unit `unit` of `units` that share the elements [begin, end) of a head.
__device__ __forceinline__ UnitPlace stretch_place(int begin, int end, int unit, int units, int turned) {
    const int low = begin + unit * kTurnWidth, high = low + units * kTurnWidth;
    return {{low, high}, {end - low, end - high}, turned};
}
__device__ __forceinline__ UnitPlace copy_place(int begin, int end, int unit) {
    return stretch_place(begin, end, unit, copy_units(end - begin), -1);
}
__device__ __forceinline__ UnitPlace unit_place(const Rotation& r, int unit) {
    const int units = turn_units(r);
    if (unit >= units) return copy_place(2 * r.half, r.head_dim, unit - units);
    if (r.interleaved) return stretch_place(2 * r.first, 2 * (r.first + r.count), unit, units, unit);
    const int low = r.first + unit * kTurnWidth, count = r.count - unit * kTurnWidth;
    return {{low, low + r.half}, {count, count}, unit};
}

// Pairs come in quads, two of a unit: neighbours where a pair is of two halves, else one of each vector. Quad `quad` of unit
// `unit` of `units`: the first of its pairs.
inline constexpr int kQuad = kTurnWidth / 2;
__device__ __forceinline__ int quad_pair(bool interleaved, int unit, int units, int quad) {
    return kQuad * (interleaved ? unit + quad * units : 2 * unit + quad);
}
// Cosines or sines of a token, or a head, wait in shared memory in the order in which neighbouring lanes ask for them: the
// first quads of all units, then the second ones. Where a pair's is.
__device__ __forceinline__ int turn_place(bool interleaved, int units, int pair) {
    if (interleaved) return pair;
    const int quad = pair / kQuad;
    return kQuad * (quad / 2 + quad % 2 * units) + pair % kQuad;
}

// Cosines or sines of a unit's pairs.
using UnitTurns = Vec<float, kTurnWidth>;
__device__ __forceinline__ UnitTurns load_turns(const float* from, int unit, int units) {
    UnitTurns turns;
#pragma unroll
    for (int quad = 0; quad < 2; ++quad) {
        const auto some = load_aligned<kQuad>(from + kQuad * (unit + quad * units));
#pragma unroll
        for (int i = 0; i < kQuad; ++i) turns[quad * kQuad + i] = some[i];
    }
    return turns;
}

// A pair's cosine and sine as the tables have them, on their way from memory; zeros where they lack the position.
struct AskedTurn {
    unsigned cos = 0, sin = 0;
};
__device__ __forceinline__ AskedTurn ask_turn(const Rotation& r, std::int64_t position, int pair) {
    AskedTurn asked;
    if (position < 0 || position >= r.table) return asked;
    const std::int64_t cosine = position * r.cos_row + pair * r.cos_step,
                       sine = position * r.sin_row + pair * r.sin_step;
    if (r.table_dtype == DType::fp32) {
        asked = {static_cast<const unsigned*>(r.cos)[cosine], static_cast<const unsigned*>(r.sin)[sine]};
    } else {
        using Bits = unsigned short;
        asked = {static_cast<const Bits*>(r.cos)[cosine], static_cast<const Bits*>(r.sin)[sine]};
    }
    return asked;
}
__device__ __forceinline__ void read_turn(const Rotation& r, const AskedTurn& asked, float& c, float& s) {
    with_wide_type(r.table_dtype, [&](auto* type) {
        using W = std::remove_pointer_t<decltype(type)>;
        W cosine, sine;
        memcpy(static_cast<void*>(&cosine), &asked.cos, sizeof(W));
        memcpy(static_cast<void*>(&sine), &asked.sin, sizeof(W));
        c = to_float(cosine), s = to_float(sine);
    });
}
__device__ __forceinline__ void look_up(const Rotation& r, std::int64_t position, int pair, float& c,
                                        float& s) {
    read_turn(r, ask_turn(r, position, pair), c, s);
}

// Fills turns[t] for the block's `tokens` tokens (a power of two); position(t) gives their positions.
template <class Position>
__device__ __forceinline__ void fill_turns(const Rotation& r, Turns& turns, int tokens, Position position) {
    const int shift = __ffs(tokens) - 1;
    const float* frequency = frequencies(r);
    for (int i = static_cast<int>(threadIdx.x); i < tokens * r.count; i += static_cast<int>(blockDim.x)) {
        const int token = i & (tokens - 1), pair = i >> shift;
        float c, s;
        if (r.cos == nullptr) [[likely]] {
            const float f = frequency[pair];  // asked for before the position, which is waited for
            sincosf(static_cast<float>(position(token)) * f, &s, &c);
        } else {
            look_up(r, position(token), r.first + pair, c, s);
        }
        const int at = turn_place(r.interleaved, turn_units(r), pair);
        turns.cos[token][at] = c;
        turns.sin[token][at] = s;
    }
}

// A unit between memory and memory, in words: 16-bit elements would be taken apart, and so waited for, where
// they only pass a branch. kWhole: both vectors are whole and aligned.
template <class T>
struct Unit {
    static constexpr int kWords = kTurnWidth * static_cast<int>(sizeof(T)) / 4;
    Vec<unsigned, kWords> part[2];
};
// `policy`: none or an L2Policy, of whole vectors.
template <bool kWhole, class T, class... Policy>
__device__ __forceinline__ void load_unit(const T* head, const UnitPlace& place, Unit<T>& unit,
                                          Policy... policy) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const T* from = head + place.at[i];
        if constexpr (kWhole) {
            unit.part[i] = load_aligned<Unit<T>::kWords>(reinterpret_cast<const unsigned*>(from), policy...);
        } else {
            const auto vector = load_elements<kTurnWidth>(from, place.count[i], T());
            memcpy(static_cast<void*>(&unit.part[i]), static_cast<const void*>(&vector), sizeof(vector));
        }
    }
}
template <bool kWhole, class T>
__device__ __forceinline__ void store_unit(T* head, const UnitPlace& place, const Unit<T>& unit) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        T* to = head + place.at[i];
        if constexpr (kWhole) {
            store_aligned(reinterpret_cast<unsigned*>(to), unit.part[i]);
        } else {
            Vec<T, kTurnWidth> vector;
            memcpy(static_cast<void*>(&vector), static_cast<const void*>(&unit.part[i]), sizeof(vector));
            store_elements(to, vector, place.count[i]);
        }
    }
}
template <class T>
__device__ __forceinline__ void unit_floats(const Unit<T>& unit, int part, float (&values)[kTurnWidth]) {
    Vec<T, kTurnWidth> vector;
    memcpy(static_cast<void*>(&vector), static_cast<const void*>(&unit.part[part]), sizeof(vector));
    to_floats(vector, values);
}

// (a, b) → (a·cos − b·sin, b·cos + a·sin)
struct TurnOnce {
    __device__ __forceinline__ void operator()(float& a, float& b, float c, float s) const {
        const float turned = a * c - b * s;
        b = b * c + a * s;
        a = turned;
    }
};

// The same as PyTorch's operators on tensors of T do it: each product is rounded to T, then the sum by the store. Where the
// tables are `wide`, in fp32, products are fp32 too. torch.addcmul does not round the second product.
template <class T>
struct TurnInSteps {
    bool wide = false, addcmul = false;

    __device__ __forceinline__ void operator()(float& a, float& b, float c, float s) const {
        const auto product = [&](float x, float y) {
            const float exact = __fmul_rn(x, y);
            return wide ? exact : round_through<T>(exact);
        };
        const auto sum = [&](float first, float x, float y) {
            return addcmul ? fmaf(x, y, first) : __fadd_rn(first, product(x, y));
        };
        const float turned = sum(product(a, c), -s, b);
        b = sum(product(b, c), s, a);
        a = turned;
    }
};

// The two vectors of a unit, turned by the cosines and sines of their pairs.
template <class Turn = TurnOnce>
__device__ __forceinline__ void turn_unit(bool interleaved, float (&low)[kTurnWidth],
                                          float (&high)[kTurnWidth], const UnitTurns& cos,
                                          const UnitTurns& sin, Turn turn = {}) {
    if (interleaved) {
#pragma unroll
        for (int i = 0; i < kQuad; ++i) {
            turn(low[2 * i], low[2 * i + 1], cos[i], sin[i]);
            turn(high[2 * i], high[2 * i + 1], cos[kQuad + i], sin[kQuad + i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < kTurnWidth; ++i) turn(low[i], high[i], cos[i], sin[i]);
    }
}

// Stores a unit: its pairs turned by cos and sin of their token, or its elements as they are.
template <bool kWhole, class T, class Turn = TurnOnce>
__device__ __forceinline__ void finish_unit(const Rotation& r, T* head, const UnitPlace& place,
                                            const Unit<T>& unit, const float* cos, const float* sin,
                                            Turn turn = {}) {
    if (place.turned < 0) return store_unit<kWhole>(head, place, unit);
    float low[kTurnWidth], high[kTurnWidth];
    unit_floats(unit, 0, low);
    unit_floats(unit, 1, high);
    const int units = turn_units(r);
    turn_unit(r.interleaved, low, high, load_turns(cos, place.turned, units),
              load_turns(sin, place.turned, units), turn);
    store_vector(head + place.at[0], from_floats<T>(low), kWhole ? kTurnWidth : place.count[0], kWhole);
    store_vector(head + place.at[1], from_floats<T>(high), kWhole ? kTurnWidth : place.count[1], kWhole);
}

// Host: what a block of an op may have: threads, and units of several tokens together.
struct UnitLimits {
    std::int64_t threads, units;
};

// Host: how many tokens of `units` units and `angles` angles a block takes, a power of two: as many as the limits allow
// (an angle a thread), and as leave blocks for every multiprocessor.
inline int tokens_a_block(std::int64_t tokens, std::int64_t units, std::int64_t angles,
                          const UnitLimits& limits, const DeviceInfo& device) {
    int count = kTurnTokens;
    const auto fits = [&] {
        return count * units <= limits.units && count * angles <= limits.threads &&
               divide_up(tokens, count) >= 2 * device.sms;
    };
    while (count > 1 && !fits()) count /= 2;
    return count;
}

// Host: a block's threads: as many as share `units` evenly within the limit, but one for each of `angles`.
inline unsigned unit_threads(std::int64_t units, std::int64_t angles, const UnitLimits& limits) {
    const std::int64_t rounds = std::max<std::int64_t>(1, divide_up(units, limits.threads));
    const std::int64_t wanted = std::max(divide_up(units, rounds), angles);
    return static_cast<unsigned>(std::clamp<std::int64_t>(divide_up(wanted, 32) * 32, 64, 512));
}

}  // namespace weft::inline WEFT_TARGET::kit
