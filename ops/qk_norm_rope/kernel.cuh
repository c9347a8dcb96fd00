// qk_norm_rope's kernel.
#pragma once

#include "kit/reduce.cuh"
#include "ops/qk_norm_rope/params.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Where a token's row of the caches is.
struct CacheRow {
    std::int64_t page, row;  // page -1: nowhere
};
// What all heads of a token share.
struct TokenRows {
    CacheRow cache[kit::kTurnTokens];
    bool turns[kit::kTurnTokens];
    float scales[2];  // of Q and K, of norms of whole rows with PyTorch's bits
};

struct QkSums {
    float at[2];
};
struct AddQkSums {
    static __device__ __forceinline__ QkSums identity() { return {{0.0f, 0.0f}}; }
    __device__ __forceinline__ QkSums operator()(const QkSums& a, const QkSums& b) const {
        return {{a.at[0] + b.at[0], a.at[1] + b.at[1]}};
    }
};

__device__ __forceinline__ std::int64_t index_at(const IndexAt& of, unsigned batch, unsigned token) {
    const std::int64_t at = batch * of.batch + token * of.token;
    return of.wide ? static_cast<const std::int64_t*>(of.data)[at]
                   : static_cast<const std::int32_t*>(of.data)[at];
}

__device__ __forceinline__ int part_of(const QkNormRopeParams& p, const kit::Rotation& r, int pair) {
    if (p.alternate) {
        const int which = pair % 3;
        return which == 1 && pair < 3 * p.section2 ? 1 : which == 2 && pair < 3 * p.section3 ? 2 : 0;
    }
    const int third = r.half - p.section3;
    return pair >= third ? 2 : pair >= third - p.section2 ? 1 : 0;
}

// What a pair turns by, on its way from memory: the frequency, none where a table has the cosine and sine of the position.
__device__ __forceinline__ float ask_frequency(const kit::Rotation& r, const QkNormRopeParams& p, int pair) {
    if (r.cos != nullptr) return 0.0f;
    if (p.frequencies != nullptr) return p.frequencies[pair];
    return pair < kit::kTurnPairs ? kit::frequencies(r)[pair] : p.more[pair - kit::kTurnPairs];
}
__device__ __forceinline__ std::int64_t ask_position(const QkNormRopeParams& p, int part, unsigned batch,
                                                     unsigned token) {
    return p.position[part].data != nullptr ? index_at(p.position[part], batch, token)
                                            : p.start + token - p.prefix;
}
// Its cosine and sine.
__device__ __forceinline__ void cosine_sine(const kit::Rotation& r, int pair, float frequency,
                                            std::int64_t position, float& c, float& s) {
    if (r.cos == nullptr) {
        sincosf(static_cast<float>(position) * frequency, &s, &c);
    } else {
        kit::look_up(r, position, pair, c, s);
    }
}

// Cosine and sine of every pair of the block's tokens. Slots beyond the last token repeat it.
__device__ __forceinline__ void fill_angles(const kit::Rotation& r, const QkNormRopeParams& p,
                                            unsigned first_token, unsigned tokens, float* turns) {
    for (unsigned i = threadIdx.x; i < p.block_tokens * p.pairs.divisor; i += blockDim.x) {
        const unsigned slot = p.pairs.quotient(i);
        const int pair = static_cast<int>(i - slot * p.pairs.divisor);
        const unsigned token = first_token + (slot < tokens ? slot : tokens - 1);
        const unsigned batch = p.sequence.quotient(token), at = token - batch * p.sequence.divisor;
        const float frequency = ask_frequency(r, p, pair);  // before the position, which is waited for
        float c, s;
        cosine_sine(r, pair, frequency, ask_position(p, part_of(p, r, pair), batch, at), c, s);
        float* to = turns + slot * 2 * static_cast<unsigned>(p.turn_stride) +
                    kit::turn_place(r.interleaved, kit::turn_units(r), pair);
        to[0] = c;
        to[p.turn_stride] = s;
    }
}

// A number outside of the caches is nowhere, too. kShort: they have fewer than 2^31 rows.
template <bool kShort>
__device__ __forceinline__ CacheRow cache_row(const QkNormRopeParams& p, unsigned batch, unsigned token) {
    std::int64_t slot = p.slots.data != nullptr ? index_at(p.slots, batch, token) : -1;
    if (slot >= p.cache_rows) slot = -1;
    if (slot < 0) return {-1, 0};
    const std::int64_t page =
        kShort || p.cache_rows >> 31 == 0 ? p.page.quotient(static_cast<unsigned>(slot)) : slot / p.page_size;
    return {page, slot - page * p.page_size};
}

// And where each token goes.
__device__ __forceinline__ void fill_tokens(const kit::Rotation& r, const QkNormRopeParams& p,
                                            unsigned first_token, unsigned tokens, float* turns,
                                            TokenRows& rows) {
    if (p.table[0].data == nullptr) fill_angles(r, p, first_token, tokens, turns);
    if (threadIdx.x < tokens) {
        const unsigned token = first_token + threadIdx.x;
        const unsigned batch = p.sequence.quotient(token), at = token - batch * p.sequence.divisor;
        rows.cache[threadIdx.x] = cache_row<false>(p, batch, at);
        rows.turns[threadIdx.x] = at >= p.prefix;
    }
}

// The head that a thread works on, in one round of the block.
struct HeadPlace {
    bool there;
    unsigned slot, batch, token, head, lane;
    int part;  // 0: of Q, 1: of K, 2: of V
};
__device__ __forceinline__ HeadPlace head_place(const QkNormRopeParams& p, unsigned i, unsigned heads,
                                                unsigned first_token) {
    HeadPlace at{};
    const unsigned group = i >> p.lanes_log2;
    at.there = group < heads;
    at.lane = i & ((1u << p.lanes_log2) - 1);
    at.slot = p.heads.quotient(group);
    at.head = group - at.slot * p.heads.divisor;
    at.part = at.head >= p.heads_before_v ? 2 : at.head >= p.heads_before_k ? 1 : 0;
    at.head -= at.part == 2 ? p.heads_before_v : at.part == 1 ? p.heads_before_k : 0;
    const unsigned token = first_token + at.slot;
    at.batch = p.sequence.quotient(token);
    at.token = token - at.batch * p.sequence.divisor;
    return at;
}
template <class T>
__device__ __forceinline__ T* head_of(const HeadsAt& heads, const HeadPlace& at) {
    return static_cast<T*>(heads.data) + at.batch * heads.batch + at.token * heads.token +
           at.head * heads.head;
}

// Unit `round` of a lane; zeros where the head has none.
template <bool kWhole, class T>
__device__ __forceinline__ bool load_lane(const kit::Rotation& r, const QkNormRopeParams& p,
                                          const HeadPlace& at, int round, kit::UnitPlace& place,
                                          kit::Unit<T>& unit) {
    unit = {};
    const int index = static_cast<int>(at.lane) + (round << p.lanes_log2);
    if (!at.there || index >= kit::head_units(r)) return false;
    place = kit::unit_place(r, index);
    kit::load_unit<kWhole>(head_of<const T>(p.in[at.part], at), place, unit);
    return true;
}

template <class T>
__device__ __forceinline__ float squares(const kit::Unit<T>& unit) {
    float sum = 0.0f;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        float x[kit::kTurnWidth];
        kit::unit_floats(unit, part, x);
#pragma unroll
        for (const float v : x) sum += v * v;
    }
    return sum;
}
// Of all units of a lane, of which the first is at hand.
template <bool kWhole, class T>
__device__ __forceinline__ float lane_squares(const kit::Rotation& r, const QkNormRopeParams& p,
                                              const HeadPlace& at, const kit::Unit<T>& first) {
    float sum = squares(first);
    for (int round = 1; round < static_cast<int>(p.rounds); ++round) {
        kit::UnitPlace place;
        kit::Unit<T> unit;
        load_lane<kWhole>(r, p, at, round, place, unit);
        sum += squares(unit);
    }
    return sum;
}

// Tells L2 of an operand's elements from `begin` on, which are asked for when something else has come.
__device__ __forceinline__ void announce(DType dtype, const void* data, std::int64_t begin) {
    kit::prefetch_l2(static_cast<const char*>(data) + begin * kit::stored_bytes(dtype));
}
__device__ __forceinline__ void announce_weight(const QkNormRopeParams& p, const HeadPlace& at,
                                                const kit::UnitPlace& place) {
    const WeightAt& weight = p.weight[at.part == 1];
    if (!p.few || weight.data == nullptr || at.part == 2) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (place.count[i] > 0) announce(weight.dtype, weight.data, at.head * weight.head + place.at[i]);
    }
}

// A unit times `scale` and its weights. kAligned: these are whole, aligned vectors without a flag that says so.
template <bool kWhole, bool kAligned = false>
__device__ __forceinline__ void scale_unit(const QkNormRopeParams& p, const HeadPlace& at,
                                           const kit::UnitPlace& place, float scale,
                                           float (&low)[kit::kTurnWidth], float (&high)[kit::kTurnWidth]) {
    constexpr int kAll = kit::kTurnWidth;
    const WeightAt& weight = p.weight[at.part == 1];
    if (weight.data == nullptr) {
#pragma unroll
        for (int i = 0; i < kAll; ++i) low[i] *= scale, high[i] *= scale;
        return;
    }
    float w[2][kAll];
    kit::with_wide_type(weight.dtype, [&](auto* type) {
        using W = std::remove_pointer_t<decltype(type)>;
        kit::Words<W, kAll> words[2];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            words[i] = kit::load_vector_words<kAll>(
                static_cast<const W*>(weight.data) + at.head * weight.head + place.at[i],
                kWhole ? kAll : place.count[i], kAligned || (kWhole && weight.aligned));
#pragma unroll
        for (int i = 0; i < 2; ++i) kit::to_floats(kit::as_vector<W, kAll>(words[i]), w[i]);
    });
    if (p.weight_offset != 0.0f) {
#pragma unroll
        for (int i = 0; i < kAll; ++i) w[0][i] += p.weight_offset, w[1][i] += p.weight_offset;
    }
#pragma unroll
    for (int i = 0; i < kAll; ++i) low[i] *= scale * w[0][i], high[i] *= scale * w[1][i];
}

// Cosines or sines of a unit's pairs, of a table that has those of each head.
template <bool kWhole, bool kAligned>
__device__ __forceinline__ kit::UnitTurns head_turns(const kit::Rotation& r, const QkNormRopeParams& p,
                                                     int which, const HeadPlace& at, int unit) {
    kit::UnitTurns turns;
    kit::with_wide_type(p.table_dtype, [&](auto* type) {
        using W = std::remove_pointer_t<decltype(type)>;
        const W* from = head_of<const W>(p.table[which], at);
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
            const int pair = kit::quad_pair(r.interleaved, unit, kit::turn_units(r), quad);
            float some[kit::kQuad];
            kit::to_floats(kit::load_vector<kit::kQuad>(from + pair, kWhole ? kit::kQuad : r.half - pair,
                                                        kAligned || (kWhole && p.tables_aligned)),
                           some);
#pragma unroll
            for (int i = 0; i < kit::kQuad; ++i) turns[quad * kit::kQuad + i] = some[i];
        }
    });
    return turns;
}

// Cosines (0) or sines (1) of a unit's pairs, of its head or those that all heads of its token share.
template <bool kWhole, bool kAligned = false>
__device__ __forceinline__ kit::UnitTurns unit_turns(const kit::Rotation& r, const QkNormRopeParams& p,
                                                     int which, const HeadPlace& at, int unit,
                                                     const float* turns) {
    if (p.table[0].data != nullptr) return head_turns<kWhole, kAligned>(r, p, which, at, unit);
    const unsigned row = 2 * at.slot + static_cast<unsigned>(which);
    return kit::load_turns(turns + row * static_cast<unsigned>(p.turn_stride), unit, kit::turn_units(r));
}

template <bool kWhole, class T>
__device__ __forceinline__ void store_to(T* head, const kit::UnitPlace& place,
                                         const float (&low)[kit::kTurnWidth],
                                         const float (&high)[kit::kTurnWidth]) {
    constexpr int kAll = kit::kTurnWidth;
    kit::store_vector(head + place.at[0], kit::from_floats<T>(low), kWhole ? kAll : place.count[0], kWhole);
    kit::store_vector(head + place.at[1], kit::from_floats<T>(high), kWhole ? kAll : place.count[1], kWhole);
}

// By which what a cache has of a head is to be multiplied.
__device__ __forceinline__ float cache_scale(const CacheAt& cache, unsigned head) {
    return cache.scale != nullptr ? cache.scale[head * cache.scale_step] : 1.0f;
}
// A unit to a cache, where its head begins at element `begin`.
template <bool kWhole, class T>
__device__ __forceinline__ void store_to_cache(const CacheAt& cache, std::int64_t begin,
                                               const kit::UnitPlace& place, float scale,
                                               float (&low)[kit::kTurnWidth],
                                               float (&high)[kit::kTurnWidth]) {
    if (cache.scale != nullptr) {
        const float inverse = 1.0f / scale;
#pragma unroll
        for (int i = 0; i < kit::kTurnWidth; ++i) low[i] *= inverse, high[i] *= inverse;
    }
    kit::with_one_of<T, kit::e4m3, kit::e5m2>(cache.dtype, [&](auto* type) {
        using Code = std::remove_pointer_t<decltype(type)>;
        store_to<kWhole>(static_cast<Code*>(cache.data) + begin, place, low, high);
    });
}

// What PyTorch's bits ask for (kernel_steps.cuh): one copy of it for all calls.
template <class T>
__device__ float head_scale_in_steps(const QkNormRopeParams& p, int head_dim, const HeadPlace& at);
template <class T>
__device__ void row_scales_in_steps(const QkNormRopeParams& p, int head_dim, unsigned token, TokenRows& rows);
template <class T>
[[gnu::noinline]] __device__ void finish_in_steps(const kit::Rotation& r, const QkNormRopeParams& p,
                                                  const HeadPlace& at, const kit::UnitPlace& place,
                                                  float scale, const float* turns, bool turned,
                                                  float (&unit)[2][kit::kTurnWidth]);

// One unit: normed by `scale`, turned, and stored wherever it goes.
template <bool kWhole, bool kSteps, class T>
__device__ __forceinline__ void finish(const kit::Rotation& r, const QkNormRopeParams& p, const HeadPlace& at,
                                       const kit::UnitPlace& place, const kit::Unit<T>& unit, float scale,
                                       const float* turns, const TokenRows& rows) {
    float low[kit::kTurnWidth], high[kit::kTurnWidth];
    kit::unit_floats(unit, 0, low);
    kit::unit_floats(unit, 1, high);
    if (kSteps && at.part < 2) {
        float steps[2][kit::kTurnWidth];
        memcpy(steps[0], low, sizeof(low)), memcpy(steps[1], high, sizeof(high));
        finish_in_steps<T>(r, p, at, place, scale, turns, rows.turns[at.slot], steps);
        memcpy(low, steps[0], sizeof(low)), memcpy(high, steps[1], sizeof(high));
    } else if (at.part < 2) {
        if (p.norm != NormOver::none) scale_unit<kWhole>(p, at, place, scale, low, high);
        if (place.turned >= 0 && rows.turns[at.slot]) {
            const kit::UnitTurns cos = unit_turns<kWhole>(r, p, 0, at, place.turned, turns),
                                 sin = unit_turns<kWhole>(r, p, 1, at, place.turned, turns);
            kit::turn_unit(r.interleaved, low, high, cos, sin);
        }
    }
    if (p.out[at.part].data != nullptr) store_to<kWhole>(head_of<T>(p.out[at.part], at), place, low, high);
    if (at.part == 0) return;
    const CacheAt& cache = p.cache[at.part - 1];
    const CacheRow& row = rows.cache[at.slot];
    if (cache.data == nullptr || row.page < 0) return;
    store_to_cache<kWhole, T>(cache, row.page * cache.page + row.row * cache.row + at.head * cache.head,
                              place, cache_scale(cache, at.head), low, high);
}

// What     q_out = rope(norm(q)); k_out and row slots[t] of k_cache = rope(norm(k)); v_out and v_cache = v
// Mapping  a block takes up to 4 tokens (one, where a norm is over all heads), each head a power of two of
//          neighbouring lanes, a lane one unit of 8 pairs or 16 elements in two vectors (more of a head of over
//          512). Two units of a thread are on their way while the block works out the angles of its tokens, once
//          for all heads. A head's sum of squares is added in its lanes, a row's in the block.
// Traffic  Q, K and V once, and once for every place that they go to: bound by memory. A row of more than two
//          units a thread is read twice, the second time from L1 or L2.
// Needs    outputs that are their input's very view, or apart from everything; nothing of slots and positions:
//          what is outside is left out, or turns by zero. kWhole: units of whole, aligned vectors.
//          kSteps: PyTorch's bits, in kernels of their own, for they take a fifth more registers
template <class T, bool kWhole, bool kSteps>
__global__ void __launch_bounds__(kHeadThreads, kHeadBlocks<T>)
    qk_norm_rope(__grid_constant__ const kit::Rotation r, __grid_constant__ const QkNormRopeParams p) {
    auto* turns = kit::dynamic_shared<float>();
    TokenRows& rows = kit::block_shared<TokenRows>();
    const unsigned first = blockIdx.x * p.block_tokens;
    const unsigned tokens = p.tokens - first < p.block_tokens ? p.tokens - first : p.block_tokens;
    const unsigned heads = tokens * p.heads.divisor, lanes = heads << p.lanes_log2;

    // Only units wait: what a unit is of is worked out again, which costs fewer registers than to keep it.
    const auto fetch = [&](unsigned i) {
        kit::UnitPlace place;
        kit::Unit<T> unit;
        const HeadPlace at = head_place(p, i, heads, first);
        if (load_lane<kWhole>(r, p, at, 0, place, unit)) announce_weight(p, at, place);
        return unit;
    };

    kit::dependency_wait();
    kit::dependents_launch();
    kit::Unit<T> now = fetch(threadIdx.x), next = fetch(threadIdx.x + blockDim.x);
    fill_tokens(r, p, first, tokens, turns, rows);
    __syncthreads();

    QkSums of_row = AddQkSums::identity();
    if (kSteps && p.norm == NormOver::row) {
        row_scales_in_steps<T>(p, r.head_dim, first, rows);
        of_row = {{rows.scales[0], rows.scales[1]}};
    } else if (p.norm == NormOver::row) {
        const auto add = [&](unsigned i, const kit::Unit<T>& unit) {
            const HeadPlace at = head_place(p, i, heads, first);
            const float sum = at.part < 2 ? lane_squares<kWhole>(r, p, at, unit) : 0.0f;
            of_row.at[0] += at.part == 0 ? sum : 0.0f;
            of_row.at[1] += at.part == 1 ? sum : 0.0f;
        };
        add(threadIdx.x, now);
        add(threadIdx.x + blockDim.x, next);
        for (unsigned i = threadIdx.x + 2 * blockDim.x; i < lanes; i += blockDim.x) add(i, fetch(i));
        kit::BlockGroup block{.lanes = static_cast<int>(blockDim.x)};
        of_row = block.reduce(of_row, AddQkSums{});
    }
    // Whole warps, since the lanes of a head add up.
    for (unsigned i = threadIdx.x; (i & ~31u) < lanes; i += blockDim.x) {
        const HeadPlace at = head_place(p, i, heads, first);
        float sum = at.part == 0 ? of_row.at[0] : of_row.at[1];
        if (!kSteps && p.norm == NormOver::head)
            sum = kit::warp_reduce(lane_squares<kWhole>(r, p, at, now), kit::Sum{}, 1 << p.lanes_log2);
        float scale = rsqrtf(sum / p.counts[at.part == 1] + p.eps);
        if (kSteps) scale = p.norm == NormOver::head ? head_scale_in_steps<T>(p, r.head_dim, at) : sum;
        const int units = at.there ? kit::head_units(r) : 0;
        for (int unit = static_cast<int>(at.lane); unit < units; unit += 1 << p.lanes_log2) {
            const kit::UnitPlace place = kit::unit_place(r, unit);
            if (unit != static_cast<int>(at.lane))
                kit::load_unit<kWhole>(head_of<const T>(p.in[at.part], at), place, now);
            finish<kWhole, kSteps>(r, p, at, place, now, scale, turns, rows);
        }
        now = next;
        next = fetch(i + 2 * blockDim.x);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
