// gemm of few tokens and weights of four bits: codes become the fragments of mma.sync in registers.
//
// A lane loads 16 bytes of its rows, 32 codes, and the scales of their groups, which are two of NVFP4's and one of any other,
// with its zero point. Each eight of these codes are 16 bytes of numbers, the fragments of two instructions, beside the 16 bytes
// of a token from the same place along k.
#pragma once

#include "ops/gemm/packed.cuh"
#include "ops/gemm/skinny_lane.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

// Where a lane's rows lie: codes, their scales, and tokens. What begins so many bytes behind a matrix fits 32 bits.
template <int kTokenTiles>
struct PackedLane {
    const SkinnyArguments& args;
    ScalePlaces first, second;
    uint32_t rows[4], scale_rows[4], zero_rows[4];
    const char* tokens[kTokenTiles];
    int piece;  // the lane's, of a step

    __device__ __forceinline__ PackedLane(const SkinnyArguments& arguments, int feature)
        : args(arguments),
          first(args.first_scales.groups),
          second(args.second_scales.groups),
          piece(kit::lane_index() % 4 * 16) {
        const int g = kit::lane_index() / 4, lower = args.epilogue.gated ? feature : feature + 16;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const SkinnyOperand& operand = i < 2 ? args.first : args.second;
            const auto r =
                static_cast<uint32_t>(min((i < 2 ? feature : lower) + g + i % 2 * 8, operand.rows - 1));
            rows[i] = r * static_cast<uint32_t>(operand.stride) + piece;
            scale_rows[i] = (i < 2 ? first : second).of_row(r);
            zero_rows[i] = r * static_cast<uint32_t>(args.first_scales.groups.groups);
        }
#pragma unroll
        for (int j = 0; j < kTokenTiles; ++j)
            tokens[j] = lane_row(args.tokens, j * 8 + g, kit::lane_index() % 4 * 4);
    }
    // The group of the lane's piece at byte `at`, the first of two of NVFP4's.
    __device__ __forceinline__ uint32_t group(int at) const {
        return static_cast<uint32_t>(at + piece) * 2 >> args.first_scales.columns_log2;
    }
    __device__ __forceinline__ const gemm::ScalesAlong& scales(int i) const {
        return i < 2 ? args.first_scales : args.second_scales;
    }
};

// What a lane has of its rows in a step, 64 bytes of codes.
template <int kTokenTiles, Codes kCodes>
struct PackedStep {
    using Lane = PackedLane<kTokenTiles>;
    Bits codes[4];
    uint32_t scales[4];
    int32_t zeros[4];

    // From byte `at` of a row on; zeros where the lane's piece is beyond `end`.
    __device__ __forceinline__ void load(const Lane& lane, int at, int end) {
#pragma unroll
        for (int i = 0; i < 4; ++i) codes[i] = {}, scales[i] = 0, zeros[i] = 0;
        if (at + lane.piece >= end) return;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const char* from = (i < 2 ? lane.args.first : lane.args.second).data + at;
            codes[i] = kit::load_streaming(reinterpret_cast<const Bits*>(from + lane.rows[i]));
        }
        if constexpr (kCodes == Codes::nv) {
            load_scales<uint16_t, 1>(lane, at);  // two of a byte
        } else if constexpr (kCodes == Codes::mx) {
            load_scales<uint8_t, 1>(lane, at);
        } else {
            lane.args.first_scales.groups.dtype == DType::fp32 ? load_scales<uint32_t, 4>(lane, at)
                                                               : load_scales<uint16_t, 2>(lane, at);
            load_zeros(lane, at);
        }
    }
    // kBytes: of a scale.
    template <class Loaded, int kBytes>
    __device__ __forceinline__ void load_scales(const Lane& lane, int at) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const uint32_t place =
                lane.scale_rows[i] + (i < 2 ? lane.first : lane.second).of_group(lane.group(at));
            const auto* from =
                static_cast<const uint8_t*>(lane.scales(i).groups.data) + int64_t{place} * kBytes;
            scales[i] = kit::load(reinterpret_cast<const Loaded*>(from));
        }
    }
    __device__ __forceinline__ void load_zeros(const Lane& lane, int at) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const gemm::ScalesAlong& of = lane.scales(i);
            if (of.zeros != nullptr) zeros[i] = of.zeros[lane.zero_rows[i] + lane.group(at)];
        }
    }
    // Word w of row i as numbers.
    template <class T>
    __device__ __forceinline__ Bits numbers(const Lane& lane, int i, int w) const {
        const uint32_t word = w == 0 ? codes[i].x : w == 1 ? codes[i].y : w == 2 ? codes[i].z : codes[i].w;
        const uint32_t scale = kCodes == Codes::nv ? scales[i] >> w / 2 * 8 & 0xff : scales[i];
        return PackedEight{word, scale, zeros[i]}.template numbers<T, kCodes>(
            lane.args.first_scales.groups.dtype);
    }
    template <class T>
    __device__ __forceinline__ void multiply(SkinnySums<kTokenTiles>& sums, const Lane& lane, int at,
                                             int end) const {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            Bits rows[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) rows[i] = numbers<T>(lane, i, w);
#pragma unroll
            for (int j = 0; j < kTokenTiles; ++j) {
                Bits token = {};
                const char* from = lane.tokens[j] + at * 4 + w * 16;
                if (at + lane.piece < end) token = kit::load_readonly(reinterpret_cast<const Bits*>(from));
                multiply_halves<T>(sums[0][j], rows[0], rows[1], token);
                multiply_halves<T>(sums[1][j], rows[2], rows[3], token);
            }
        }
    }
};

// A step is on its way to registers while the one before is multiplied; two lines ahead, codes are on their way to L2.
template <class T, int kTokenTiles, Codes kCodes>
__device__ __forceinline__ void multiply_packed_span(SkinnySums<kTokenTiles>& sums,
                                                     const SkinnyArguments& args, int feature,
                                                     const Span& span) {
    const PackedLane<kTokenTiles> lane(args, feature);
    const char* ahead = prefetched_row(args, feature) + kLinesAhead * kLineBytes;
    PackedStep<kTokenTiles, kCodes> now, next;
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
