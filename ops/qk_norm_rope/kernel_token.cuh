// qk_norm_rope's kernel for Q and K alone, of whole vectors.
#pragma once

#include "kit/ptx/cp_async.cuh"
#include "ops/qk_norm_rope/kernel.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kTokenThreads = 512;
// Registers for as many threads as two such blocks have; a thread's units of fp32 take more.
template <class T>
inline constexpr int kTokenBlocks = sizeof(T) == 2 ? 2 : 1;

// What a thread has of two tokens in shared memory, the one at hand and the one on its way: its units of Q and of K, and the
// cosines and sines of their pairs where a table of heads has them in T. It reads what it has copied itself.
template <class T>
class TokenRing {
   public:
    using Words = kit::Vec<unsigned, kit::Unit<T>::kWords>;
    static constexpr int kPieces = static_cast<int>(sizeof(Words)) / 16;
    static constexpr int kTurns = 4;  // the first vector of these, behind two of Q and two of K
    // Host: bytes of a block.
    static constexpr std::size_t bytes(unsigned threads, bool turns) {
        return std::size_t{2} * (turns ? kTurns + 2 : kTurns) * sizeof(Words) * threads;
    }

    __device__ __forceinline__ TokenRing(char* shared, bool turns)
        : own_(shared + threadIdx.x * 16), stage_(static_cast<unsigned>(turns ? kTurns + 2 : kTurns)) {}
    __device__ __forceinline__ void copy(unsigned stage, int vector, const T* from) const {
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
            kit::cp_async_16(piece(stage, vector, i), reinterpret_cast<const char*>(from) + 16 * i);
    }
    __device__ __forceinline__ Words read(unsigned stage, int vector) const {
        Words words;
#pragma unroll
        for (int i = 0; i < kPieces; ++i)
            memcpy(reinterpret_cast<char*>(&words) + 16 * i, piece(stage, vector, i), 16);
        return words;
    }

   private:
    __device__ __forceinline__ char* piece(unsigned stage, int vector, int i) const {
        const unsigned number =
            (stage * stage_ + static_cast<unsigned>(vector)) * kPieces + static_cast<unsigned>(i);
        return own_ + number * blockDim.x * 16;
    }
    char* own_;
    unsigned stage_;  // vectors of a token
};

// A thread's share of the cosines and sines that all heads of a token share: every so many-th pair. Of its first one the table's
// are on their way while the token before is worked out, and the position of the token after it as well.
class TokenAngles {
   public:
    __device__ __forceinline__ TokenAngles(const kit::Rotation& r, const QkNormRopeParams& p)
        : pair_(static_cast<int>(threadIdx.x)), here_(p.table[0].data == nullptr && pair_ < r.half) {
        if (!here_) return;
        part_ = part_of(p, r, pair_);
        frequency_ = ask_frequency(r, p, pair_);
    }
    __device__ __forceinline__ void ask_position(const QkNormRopeParams& p, unsigned token) {
        if (here_ && token < p.tokens) position_ = position_of(p, part_, token);
    }
    // Of the token whose position was asked for.
    __device__ __forceinline__ void ask(const kit::Rotation& r) {
        if (!here_) return;
        at_ = position_;
        if (r.cos != nullptr) asked_ = kit::ask_turn(r, at_, pair_);
    }
    // The same ones, to shared memory.
    __device__ __forceinline__ void write(const kit::Rotation& r, const QkNormRopeParams& p, unsigned token,
                                          float* turns) const {
        if (!here_) return;
        float c, s;
        if (r.cos != nullptr) {
            kit::read_turn(r, asked_, c, s);
        } else {
            sincosf(static_cast<float>(at_) * frequency_, &s, &c);
        }
        put(r, p, pair_, c, s, turns);
        for (int pair = pair_ + static_cast<int>(blockDim.x); pair < r.half;
             pair += static_cast<int>(blockDim.x)) {
            cosine_sine(r, pair, ask_frequency(r, p, pair), position_of(p, part_of(p, r, pair), token), c, s);
            put(r, p, pair, c, s, turns);
        }
    }

   private:
    __device__ __forceinline__ static std::int64_t position_of(const QkNormRopeParams& p, int part,
                                                               unsigned token) {
        const unsigned batch = p.sequence.quotient(token);
        return ::weft::WEFT_TARGET::ask_position(p, part, batch, token - batch * p.sequence.divisor);
    }
    __device__ __forceinline__ static void put(const kit::Rotation& r, const QkNormRopeParams& p, int pair,
                                               float c, float s, float* turns) {
        float* to = turns + kit::turn_place(r.interleaved, kit::turn_units(r), pair);
        to[0] = c;
        to[p.turn_stride] = s;
    }
    int pair_, part_ = 0;
    bool here_;
    float frequency_ = 0.0f;
    std::int64_t position_ = 0, at_ = 0;
    kit::AskedTurn asked_;
};

template <class T>
__device__ __forceinline__ kit::UnitTurns widened(const typename TokenRing<T>::Words& held) {
    kit::Vec<T, kit::kTurnWidth> vector;
    memcpy(static_cast<void*>(&vector), static_cast<const void*>(&held), sizeof(vector));
    kit::UnitTurns turns;
    kit::to_floats(vector, turns.at);
    return turns;
}

// What     q_out = rope(norm(q)), k_out = rope(norm(k))
// Mapping  a block takes every so many-th token. A thread has one unit of a head of Q and the same of K's head of that number,
//          so that the cosines and sines of a head are asked for once. While it works on a token, the next one's are on their
//          way to shared memory; the angles that heads share and the sums of the warps meet at one barrier a token
// Traffic  Q and K once in and once out, tables of heads once: bound by memory
// Needs    units, weights and tables of heads of whole, aligned vectors, units as many of Q and of K as threads at most; of
//          a norm of heads a power of two of a head, up to 32; outputs as qk_norm_rope
template <class T>
__global__ void __launch_bounds__(kTokenThreads, kTokenBlocks<T>)
    qk_norm_rope_token(__grid_constant__ const kit::Rotation r, __grid_constant__ const QkNormRopeParams p) {
    const TokenRing<T> ring(kit::dynamic_shared<char>(), p.tables_held);
    auto* turns = reinterpret_cast<float*>(kit::dynamic_shared<char>() +
                                           TokenRing<T>::bytes(blockDim.x, p.tables_held));
    HeadPlace at{};
    at.head = p.head_units.quotient(threadIdx.x);
    const kit::UnitPlace place =
        kit::unit_place(r, static_cast<int>(threadIdx.x - at.head * p.head_units.divisor));
    const bool there[2] = {at.head < p.heads_before_k, at.head < p.heads_before_v - p.heads_before_k};
    const bool of_heads = p.table[0].data != nullptr, may_turn = (there[0] || there[1]) && place.turned >= 0;
    const auto go_to = [&](unsigned token) {
        at.batch = p.sequence.quotient(token);
        at.token = token - at.batch * p.sequence.divisor;
    };
    const auto ask = [&](unsigned token, unsigned stage) {
        if (token < p.tokens) {
            go_to(token);
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                if (!there[part]) continue;
                const T* head = head_of<const T>(p.in[part], at);
                ring.copy(stage, 2 * part, head + place.at[0]);
                ring.copy(stage, 2 * part + 1, head + place.at[1]);
            }
            if (p.tables_held && may_turn && at.token >= p.prefix) {
#pragma unroll
                for (int which = 0; which < 2; ++which)
                    ring.copy(stage, TokenRing<T>::kTurns + which,
                              head_of<const T>(p.table[which], at) + place.turned * kit::kTurnWidth);
            }
        }
        kit::cp_async_commit();
    };

    kit::dependency_wait();
    kit::dependents_launch();
    ask(blockIdx.x, 0);
    TokenAngles angles(r, p);
    angles.ask_position(p, blockIdx.x);
    if (p.few) {
#pragma unroll
        for (at.part = 0; at.part < 2; ++at.part) {
            if (there[at.part]) announce_weight(p, at, place);
        }
    }
    angles.ask(r);
    angles.ask_position(p, blockIdx.x + gridDim.x);
    angles.write(r, p, blockIdx.x, turns);

    kit::BlockGroup block{.lanes = static_cast<int>(blockDim.x)};
    unsigned stage = 0;
    for (unsigned token = blockIdx.x; token < p.tokens; token += gridDim.x, stage ^= 1) {
        const unsigned next = token + gridDim.x;
        ask(next, stage ^ 1);
        if (next < p.tokens) {
            angles.ask(r);
            angles.ask_position(p, next + gridDim.x);
        }
        go_to(token);
        const bool turned = may_turn && at.token >= p.prefix;
        const float* of_token = turns + stage * 2 * static_cast<unsigned>(p.turn_stride);
        kit::cp_async_wait<1>();
        const auto unit_of = [&](int part) {
            return kit::Unit<T>{{ring.read(stage, 2 * part), ring.read(stage, 2 * part + 1)}};
        };
        QkSums sums = AddQkSums::identity();
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            if (there[part]) sums.at[part] = squares(unit_of(part));
        }
        if (p.norm == NormOver::row) {
            sums = block.reduce(sums, AddQkSums{});
        } else {
            sums = kit::warp_reduce(sums, AddQkSums{}, static_cast<int>(p.head_units.divisor));
            __syncthreads();
        }
#pragma unroll
        for (at.part = 0; at.part < 2; ++at.part) {
            if (!there[at.part]) continue;
            float low[kit::kTurnWidth], high[kit::kTurnWidth];
            const kit::Unit<T> unit = unit_of(at.part);  // read again, which takes no registers meanwhile
            kit::unit_floats(unit, 0, low);
            kit::unit_floats(unit, 1, high);
            scale_unit<true, true>(p, at, place, rsqrtf(sums.at[at.part] / p.counts[at.part] + p.eps), low,
                                   high);
            if (turned) {
                const bool held = of_heads && p.tables_held;
                const auto turn = [&](int which) {
                    return held ? widened<T>(ring.read(stage, TokenRing<T>::kTurns + which))
                                : unit_turns<true, true>(r, p, which, at, place.turned, of_token);
                };
                const kit::UnitTurns cos = turn(0), sin = turn(1);
                kit::turn_unit(r.interleaved, low, high, cos, sin);
            }
            store_to<true>(head_of<T>(p.out[at.part], at), place, low, high);
        }
        if (next < p.tokens)
            angles.write(r, p, next, turns + (stage ^ 1) * 2 * static_cast<unsigned>(p.turn_stride));
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
