// Values to fewer bits: codes of every narrow dtype, and the scales of groups that neighbouring lanes hold.
#pragma once

#include <cfloat>

#include "kit/convert.cuh"
#include "kit/reduce.cuh"
#include "kit/vector.cuh"
#include "weft/narrow.h"

namespace weft::inline WEFT_TARGET::kit {

// Calls `use` with a null pointer to the device type of a narrow dtype's codes.
template <class F>
__host__ __device__ __forceinline__ void with_code(DType codes, F use) {
    with_one_of<e4m3, e5m2, std::int8_t, e2m1>(codes, use);
}

// The codes of N values, an even number, the first in the lowest nibble: to nearest even, saturated. A code is a broken
// line of its magnitude u, the least of 2u, u + 2 and u/2 + 4; a sum with 2^23 is rounded to a whole number.
template <int N>
__device__ __forceinline__ Vec<std::uint8_t, N / 2> e2m1_codes(const float (&values)[N]) {
    constexpr int kWord = N < 8 ? N : 8;  // codes that are put together at a time
    constexpr float kWhole = 0x1p23f;
    constexpr unsigned kWholeBits =
        0x4b000000u * 0x11111111u;  // of 2^23 itself, in all nibbles: what is beyond is lost
    Vec<std::uint8_t, N / 2> packed;
#pragma unroll
    for (int first = 0; first < N; first += kWord) {
        unsigned magnitudes = 0, signs = 0;
#pragma unroll
        for (int i = first + kWord - 1; i >= first; --i) {
            const float u = fminf(fabsf(values[i]), 6.0f);
            const float code =
                fminf(fminf(2.0f * u + kWhole, u + (kWhole + 2.0f)), 0.5f * u + (kWhole + 4.0f));
            magnitudes = magnitudes * 16 + __float_as_uint(code);
            signs = signs << 4 | __float_as_uint(values[i]) >> 28;
        }
        const unsigned word = (magnitudes - kWholeBits) | (signs & 0x88888888u);
        memcpy(&packed[first / 2], &word, kWord / 2);
    }
    return packed;
}

// Elements [0, count) of N, from element `index` of an array of codes on; of e2m1 `index` and `count` are even.
template <class Code, int N>
__device__ __forceinline__ void store_codes(void* data, std::int64_t index, const float (&values)[N],
                                            int count, bool aligned) {
    if constexpr (std::is_same_v<Code, e2m1>) {
        store_vector(static_cast<std::uint8_t*>(data) + index / 2, e2m1_codes(values), count / 2, aligned);
    } else {
        store_vector(static_cast<Code*>(data) + index, from_floats<Code>(values), count, aligned);
    }
}

// The values of N codes, element 0 in the lowest nibble. A code without its sign is the upper end of an fp32 number 2^126
// times smaller, also where it is subnormal in both.
template <int N>
__device__ __forceinline__ void e2m1_floats(const Vec<std::uint8_t, N / 2>& codes, float (&to)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const unsigned code = static_cast<unsigned>(codes[i / 2]) >> (i % 2 * 4);
        to[i] = __uint_as_float((code & 8u) << 28 | (code & 7u) << 22) * 0x1p126f;
    }
}

// The values of elements [0, count) of N codes, from element `index` of an array on; the others are 0.
template <class Code, int N>
__device__ __forceinline__ void load_codes(const void* data, std::int64_t index, int count, bool aligned,
                                           float (&to)[N]) {
    if constexpr (std::is_same_v<Code, e2m1>) {
        const auto* from = static_cast<const std::uint8_t*>(data) + index / 2;
        e2m1_floats(load_vector<N / 2>(from, count / 2, aligned), to);
    } else {
        to_floats(load_vector<N>(static_cast<const Code*>(data) + index, count, aligned), to);
    }
}

// Whether a dtype of codes has one for NaN. Of those that have none, a scale of NaN says it.
__device__ __forceinline__ bool has_nan(DType codes) {
    return codes == DType::fp8_e4m3 || codes == DType::fp8_e5m2;
}

// The largest magnitude of what is stored as `codes`.
template <int N>
__device__ __forceinline__ float amax_of(DType codes, const float (&values)[N]) {
    const AmaxOrNan largest{.keeps_nan = !has_nan(codes)};
    float amax = 0.0f;
#pragma unroll
    for (const float value : values) amax = largest(amax, fabsf(value));
    return amax;
}

// A scale: the bits of what is stored (fp32's, or a byte), and what the values are multiplied by: NaN where it is.
struct CodeScale {
    unsigned bits;
    float inverse;
};

// The power of two from amax / max on, by the bits of both: the quotient of the powers, and one more where amax has the
// larger fraction.
__device__ __forceinline__ CodeScale power_scale(DType codes, float amax) {
    const unsigned x = __float_as_uint(amax), max = __float_as_uint(quantized_max(codes));
    const int quotient = static_cast<int>(x >> 23) - static_cast<int>(max >> 23) + 127 +
                         ((x & 0x7fffffu) > (max & 0x7fffffu) ? 1 : 0);
    constexpr unsigned kInfinity = 0x7f800000;
    const unsigned code = x > kInfinity    ? 255u
                          : x == kInfinity ? 254u
                          : quotient > 0   ? static_cast<unsigned>(quotient)
                                           : 0u;
    if (code == 255) return {code, amax};
    return {code, code == 254 ? 0x1p-127f : __uint_as_float((254 - code) << 23)};
}

// x / kBy, rounded once: the quotient by a product, and what its remainder lacks. x is not negative; what is below 2^-100
// may be off. Infinity and NaN have no remainder.
template <int kBy>
__device__ __forceinline__ float divided_by(float x) {
    constexpr float kPart = 1.0f / kBy;
    const float quotient = x * kPart,
                exact = fmaf(fmaf(-static_cast<float>(kBy), quotient, x), kPart, quotient);
    return exact == exact ? exact : quotient;
}

// The scale of a group (weft/narrow.h) whose largest magnitude is amax. `tensor`: the second level's, of ue4m3 scales.
__device__ __forceinline__ CodeScale group_scale(DType codes, float amax, DType scales, float tensor) {
    if (scales == DType::ue8m0) return power_scale(codes, amax);
    if (scales == DType::fp8_e4m3) {
        const e4m3 stored = from_float<e4m3>(divided_by<6>(tensor == 1.0f ? amax : amax * (1.0f / tensor)));
        const float scale = to_float(stored);
        const float inverse = fminf(fmaxf(1.0f / (scale * tensor), FLT_MIN), FLT_MAX);
        return {stored.__x, scale > 0.0f ? inverse : scale};
    }
    const float scale = dynamic_scale(amax, codes);
    return {__float_as_uint(scale), 1.0f / scale};
}

// The scale of the group of a row that has this column.
__device__ __forceinline__ float load_group_scale(const GroupScales& from, std::int64_t row,
                                                  std::int64_t column) {
    const std::int64_t at = from.at(row, column / group_columns(from.dtype));
    if (from.dtype == DType::fp32) return static_cast<const float*>(from.data)[at];
    if (from.dtype == DType::fp8_e4m3) return to_float(static_cast<const e4m3*>(from.data)[at]);
    const unsigned code = static_cast<const std::uint8_t*>(from.data)[at];
    return __uint_as_float(code == 0 ? 0x00400000u : code == 255 ? 0x7fffffffu : code << 23);
}

// A tensor of codes with scales of groups, as kernels see it.
struct GroupedRows {
    void* data = nullptr;
    std::int64_t stride = 0;
    DType dtype = DType::fp4_e2m1;
    bool aligned = false;          // whole vectors of codes may be stored at once
    const float* scale = nullptr;  // of the tensor, over ue4m3 scales; null: 1
    GroupScales groups;
};

// Host: `codes` in vectors of `width` values, with the scale of the tensor (or none) and one of the fields for groups.
inline GroupedRows grouped_rows(const Tensor& codes, const Tensor& scale, const Tensor& group_scale,
                                const Tensor& swizzled_scale, int width) {
    const Rows rows = *fold_rows(codes);
    return {.data = codes.data,
            .stride = rows.stride,
            .dtype = codes.dtype,
            .aligned = rows_aligned(codes, width),
            .scale = scale ? scale.as<const float>() : nullptr,
            .groups = group_scales(group_scale, swizzled_scale, rows.rows, rows.dim)};
}

// Stores the scale of a group, and zeros for the padding that is nearest to it: in its column below the last row, and
// beyond the row's last group.
__device__ __forceinline__ void store_scale(const GroupScales& to, std::int64_t row, std::int64_t group,
                                            unsigned bits) {
    const std::int64_t at = to.at(row, group);
    if (to.dtype == DType::fp32) {
        static_cast<unsigned*>(to.data)[at] = bits;
    } else {
        static_cast<std::uint8_t*>(to.data)[at] = static_cast<std::uint8_t>(bits);
    }
}
__device__ __forceinline__ void store_group_scale(const GroupScales& to, std::int64_t row, std::int64_t group,
                                                  unsigned bits) {
    store_scale(to, row, group, bits);
    const std::int64_t end = group + 1 == to.groups ? to.padded_groups : group + 1;
    if (row + to.rows >= to.padded_rows && end == group + 1) return;  // seldom is there padding to write
    for (std::int64_t r = row; r < to.padded_rows; r += to.rows) {
        for (std::int64_t g = r == row ? group + 1 : group; g < end; ++g) store_scale(to, r, g, 0);
    }
}

// Stores N neighbouring values of a row, which begins at element `begin` of the codes, of which the first `count` are
// there (none: count <= 0) and the others are 0, with the scale of their group: it is `lanes` neighbouring lanes of a
// warp, all of which call this. `tensor`: the second level's scale.
template <int N>
__device__ __forceinline__ void store_group(const GroupedRows& to, std::int64_t begin, std::int64_t row,
                                            std::int64_t column, int count, float (&values)[N], int lanes,
                                            float tensor) {
    const AmaxOrNan largest{.keeps_nan = !has_nan(to.dtype)};
    const float amax = warp_reduce(amax_of(to.dtype, values), largest, lanes);
    if (count <= 0) return;
    const CodeScale scale = group_scale(to.dtype, amax, to.groups.dtype, tensor);
    const bool nan = largest.keeps_nan && scale.inverse != scale.inverse;  // which the scale says
#pragma unroll
    for (float& value : values) value = nan ? 0.0f : value * scale.inverse;
    with_code(to.dtype, [&](auto* type) {
        store_codes<std::remove_pointer_t<decltype(type)>>(to.data, begin + column, values, count,
                                                           to.aligned);
    });
    const int columns_log2 = 31 - __clz(lanes * N);
    const std::int64_t group = column >> columns_log2;
    if (column == group << columns_log2) store_group_scale(to.groups, row, group, scale.bits);
}

}  // namespace weft::inline WEFT_TARGET::kit
