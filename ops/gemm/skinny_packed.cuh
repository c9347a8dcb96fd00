// gemm of few tokens and weights of four bits: codes become the fragments of mma.sync in registers.
//
// A lane loads 16 bytes of its rows, 32 codes, and the scales of their groups. Each eight of these codes are 16 bytes of
// numbers, the fragments of two instructions, beside the 16 bytes of a token from the same place along k.
#pragma once

#include "ops/gemm/packed.cuh"
#include "ops/gemm/skinny_lane.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Where a lane's rows lie: codes, their scales, and tokens. What begins so many bytes behind a matrix fits 32 bits.
template <int kTokenTiles, DType kScales>
struct PackedLane {
    // Of 16 bytes of codes, a piece: two groups of 16, or one of 32.
    using Scale = std::conditional_t<kScales == DType::ue8m0, uint8_t, uint16_t>;
    static constexpr int kGroupBytes = kScales == DType::ue8m0 ? 16 : 8;  // of codes

    const SkinnyArguments& args;
    ScalePlaces first, second;
    uint32_t rows[4], scale_rows[4];
    const char* tokens[kTokenTiles];
    int piece;  // the lane's, of a step

    __device__ __forceinline__ PackedLane(const SkinnyArguments& arguments, int feature)
        : args(arguments),
          first(args.first_scales),
          second(args.second_scales),
          piece(kit::lane_index() % 4 * 16) {
        const int g = kit::lane_index() / 4, lower = args.epilogue.gated ? feature : feature + 16;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const SkinnyOperand& operand = i < 2 ? args.first : args.second;
            const auto r =
                static_cast<uint32_t>(min((i < 2 ? feature : lower) + g + i % 2 * 8, operand.rows - 1));
            rows[i] = r * static_cast<uint32_t>(operand.stride) + piece;
            scale_rows[i] = (i < 2 ? first : second).of_row(r);
        }
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j)
            tokens[j] = lane_row(args.tokens, j * 8 + g, kit::lane_index() % 4 * 4);
    }
};

// What a lane has of its rows in a step, 64 bytes of codes.
template <int kTokenTiles, DType kScales>
struct PackedStep {
    using Lane = PackedLane<kTokenTiles, kScales>;
    Bits codes[4];
    uint32_t scales[4];

    // From byte `at` of a row on; zeros where the lane's piece is beyond `end`.
    __device__ __forceinline__ void load(const Lane& lane, int at, int end) {
#pragma unroll
        for (int i = 0; i < 4; ++i) codes[i] = {}, scales[i] = 0;
        if (at + lane.piece >= end) return;
        const auto group = static_cast<uint32_t>(at + lane.piece) / Lane::kGroupBytes;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const char* from = (i < 2 ? lane.args.first : lane.args.second).data + at;
            codes[i] = kit::load_streaming(reinterpret_cast<const Bits*>(from + lane.rows[i]));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const GroupScales& groups = i < 2 ? lane.args.first_scales : lane.args.second_scales;
            const uint32_t place = lane.scale_rows[i] + (i < 2 ? lane.first : lane.second).of_group(group);
            const auto* from = static_cast<const uint8_t*>(groups.data) + place;
            scales[i] = kit::load(reinterpret_cast<const typename Lane::Scale*>(from));
        }
    }
    // The scale of word w of row i.
    template <class T>
    __device__ __forceinline__ T scale(int i, int w) const {
        const uint32_t bits = kScales == DType::ue8m0 ? scales[i] : scales[i] >> w / 2 * 8 & 0xff;
        return kit::from_float<T>(kit::scale_value(kScales, bits));
    }
    template <class T>
    __device__ __forceinline__ void multiply(SkinnySums<kTokenTiles>& sums, const Lane& lane, int at,
                                             int end) const {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            Bits numbers[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const uint32_t word = w == 0   ? codes[i].x
                                      : w == 1 ? codes[i].y
                                      : w == 2 ? codes[i].z
                                               : codes[i].w;
                numbers[i] = kit::scaled_e2m1(word, scale<T>(i, w));
            }
#pragma unroll
            for (int j = 0; j < kTokenTiles; ++j) {
                Bits token = {};
                const char* from = lane.tokens[j] + at * 4 + w * 16;
                if (at + lane.piece < end) token = kit::load_readonly(reinterpret_cast<const Bits*>(from));
                multiply_halves<T>(sums[0][j], numbers[0], numbers[1], token);
                multiply_halves<T>(sums[1][j], numbers[2], numbers[3], token);
            }
        }
    }
};

// A step is on its way to registers while the one before is multiplied; two lines ahead, codes are on their way to L2.
template <class T, int kTokenTiles, DType kScales>
__device__ __forceinline__ void multiply_packed_span(SkinnySums<kTokenTiles>& sums,
                                                     const SkinnyArguments& args, int feature,
                                                     const Span& span) {
    const PackedLane<kTokenTiles, kScales> lane(args, feature);
    const char* ahead = prefetched_row(args, feature) + kLinesAhead * kLineBytes;
    PackedStep<kTokenTiles, kScales> now, next;
    next.load(lane, span.begin, span.end);
#pragma unroll 1
    for (int at = span.begin; at < span.end; at += kStepBytes) {
        now = next;
        next.load(lane, at + kStepBytes, span.end);
        if (at % kLineBytes == 0 && at + kLinesAhead * kLineBytes < span.end) kit::prefetch_l2(ahead + at);
        now.template multiply<T>(sums, lane, at, span.end);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
