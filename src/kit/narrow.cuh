// Values to fewer bits: codes of every narrow dtype, and the scales of groups that neighbouring lanes hold.
#pragma once

#include <cfloat>

#include "kit/convert.cuh"
#include "kit/ptx/max_or_nan.cuh"
#include "kit/reduce.cuh"
#include "kit/vector.cuh"
#include "weft/narrow.h"

namespace weft::inline WEFT_TARGET::kit {

// Calls `use` with a null pointer to the device type of a narrow dtype's codes.
template <class F>
__host__ __device__ __forceinline__ void with_code(DType codes, F use) {
    with_one_of<e4m3, e5m2, std::int8_t, e2m1>(codes, use);
}

// The codes of N values, an even number, the first in the lowest nibble: to nearest even. Magnitudes are below 7. A code is
// a broken line of its magnitude u: 2u up to 2, u + 2 up to 4, u/2 + 4 beyond. Beyond a power of two, floats lie twice as
// far apart; so the sum that passes 2^23 where u passes 2 is rounded as the first two parts are, the one that passes 2^24
// where u passes 4 as the last two are, and each of them counts too many where the line's other part is.
template <int N>
__device__ __forceinline__ Vec<std::uint8_t, N / 2> e2m1_codes(const float (&values)[N]) {
    constexpr int kWord = N < 8 ? N : 8;  // codes that are put together at a time
    constexpr float kFirst = 0x1p23f - 2.0f, kLast = 0x1p24f - 4.0f;
    constexpr unsigned kZero = 0x4afffffc,
                       kTwo = 0x4b7ffffc;  // their bits: code 0 of the one, code 2 of the other
    Vec<std::uint8_t, N / 2> packed;
#pragma unroll
    for (int first = 0; first < N; first += kWord) {
        unsigned magnitudes = 0, signs = 0;
#pragma unroll
        for (int i = first + kWord - 1; i >= first; --i) {
            const unsigned low = __float_as_uint(fabsf(values[i]) + kFirst),
                           high = __float_as_uint(fabsf(values[i]) + kLast) - (kTwo - kZero - 2);
            magnitudes = magnitudes * 16 + (low < high ? low : high);
            signs = signs << 4 | __float_as_uint(values[i]) >> 28;
        }
        // What lies beyond the word's bits is lost.
        const unsigned word = (magnitudes - kZero * 0x11111111u) | (signs & 0x88888888u);
        memcpy(&packed[first / 2], &word, kWord / 2);
    }
    return packed;
}

// Elements [0, count) of N, from element `index` of an array of codes on; of e2m1 `index` and `count` are even.
template <class Code, int N>
__device__ __forceinline__ void store_codes(void* data, std::int64_t index, const float (&values)[N],
                                            int count, bool aligned) {
    if constexpr (std::is_same_v<Code, e2m1>) {
        store_vector(static_cast<std::uint8_t*>(data) + (index >> 1), e2m1_codes(values), count / 2, aligned);
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

// Element `index` of an array of e2m1.
__device__ __forceinline__ float load_e2m1(const void* data, std::int64_t index) {
    const Vec<std::uint8_t, 1> both{static_cast<const std::uint8_t*>(data)[index / 2]};
    float two[2];
    e2m1_floats(both, two);
    return index % 2 == 0 ? two[0] : two[1];
}

// Two numbers of bf16 or fp16 in a register, times one.
template <class T>
__device__ __forceinline__ unsigned multiply_pair(unsigned pair, T factor) {
    using Two = std::conditional_t<std::is_same_v<T, bf16>, __nv_bfloat162, __half2>;
    Two two;
    memcpy(static_cast<void*>(&two), &pair, 4);
    two = __hmul2(two, Two(factor, factor));
    memcpy(&pair, static_cast<const void*>(&two), 4);
    return pair;
}

// Eight codes, the first in the lowest nibble, times a scale, as numbers of bf16 or fp16: exact where T has the products. A
// code without its sign is the upper end of a number of T, 2^126 (bf16) or 2^14 (fp16) times smaller, as in e2m1_floats.
template <class T>
__device__ __forceinline__ uint4 scaled_e2m1(unsigned codes, T scale) {
    constexpr bool kBf16 = std::is_same_v<T, bf16>;
    constexpr int kShift = kBf16 ? 6 : 9;  // of a code's lowest bit
    const auto lift = from_float<T>(kBf16 ? 0x1p126f : 0x1p14f);
    unsigned pairs[4];  // codes i and i + 4
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const unsigned both = codes >> 4 * i;
        pairs[i] = (both & 0x00070007u) << kShift | (both & 0x00080008u) << 12;
        pairs[i] = multiply_pair<T>(multiply_pair<T>(pairs[i], lift), scale);
    }
    return {__byte_perm(pairs[0], pairs[1], 0x5410), __byte_perm(pairs[2], pairs[3], 0x5410),
            __byte_perm(pairs[0], pairs[1], 0x7632), __byte_perm(pairs[2], pairs[3], 0x7632)};
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
    float amax = 0.0f;
    // Not two loops behind a branch: where values are in turns, the compiler would keep them in memory.
#pragma unroll
    for (const float value : values)
        amax = has_nan(codes) ? fmaxf(amax, fabsf(value)) : max_or_nan(amax, fabsf(value));
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
        const e4m3 stored = from_float<e4m3>(divided_by<6>(amax * (tensor == 1.0f ? 1.0f : 1.0f / tensor)));
        const float scale = to_float(stored);
        const float inverse = fminf(fmaxf(1.0f / (scale * tensor), FLT_MIN), FLT_MAX);
        return {stored.__x, scale > 0.0f ? inverse : scale};
    }
    const float scale = dynamic_scale(amax, codes);
    return {__float_as_uint(scale), 1.0f / scale};
}

// The scale of the group of a row that has this column: its bits, and what they say.
__device__ __forceinline__ unsigned load_scale_bits(const GroupScales& from, std::int64_t row,
                                                    std::int64_t column) {
    const std::int64_t at = from.at(row, column / group_columns(from.dtype));
    if (from.dtype == DType::fp32) return static_cast<const unsigned*>(from.data)[at];
    return static_cast<const std::uint8_t*>(from.data)[at];
}
__device__ __forceinline__ float scale_value(DType scales, unsigned bits) {
    if (scales == DType::fp32) return __uint_as_float(bits);
    if (scales == DType::fp8_e4m3) {
        e4m3 code;
        code.__x = static_cast<__nv_fp8_storage_t>(bits);
        return to_float(code);
    }
    return __uint_as_float(bits == 0 ? 0x00400000u : bits == 255 ? 0x7fffffffu : bits << 23);
}
__device__ __forceinline__ float load_group_scale(const GroupScales& from, std::int64_t row,
                                                  std::int64_t column) {
    return scale_value(from.dtype, load_scale_bits(from, row, column));
}

// A tensor of codes with scales of groups, as kernels see it.
struct GroupedRows {
    void* data = nullptr;
    std::int64_t stride = 0, dim = 0;
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
            .dim = rows.dim,
            .dtype = codes.dtype,
            .aligned = rows_aligned(codes, width),
            .scale = scale ? scale.as<const float>() : nullptr,
            .groups = group_scales(group_scale, swizzled_scale, rows.rows, rows.dim)};
}

// Stores the bits of a scale at element `at`.
__device__ __forceinline__ void store_scale(const GroupScales& to, std::int64_t at, unsigned bits) {
    if (to.dtype == DType::fp32) {
        static_cast<unsigned*>(to.data)[at] = bits;
    } else {
        static_cast<std::uint8_t*>(to.data)[at] = static_cast<std::uint8_t>(bits);
    }
}
// The scale of a group, and zeros for the padding that is nearest to it: in its column below the last row, and beyond the
// row's last group.
__device__ __forceinline__ void store_group_scale(const GroupScales& to, std::int64_t row, std::int64_t group,
                                                  unsigned bits) {
    store_scale(to, to.at(row, group), bits);
    const std::int64_t end = group + 1 == to.groups ? to.padded_groups : group + 1;
    if (row + to.rows >= to.padded_rows && end == group + 1) return;  // seldom is there padding to write
    for (std::int64_t r = row; r < to.padded_rows; r += to.rows) {
        for (std::int64_t g = r == row ? group + 1 : group; g < end; ++g) store_scale(to, to.at(r, g), 0);
    }
}

// Stores the codes of N neighbouring values from element `index` of `to` on, of which the first `count` are there and the
// others are 0 (none: count <= 0). Gives the bits of their group's scale, 0 where there are no
// values: the group is `lanes` neighbouring lanes of a warp, all of which call this. `tensor`: the second level's scale.
template <int N>
__device__ __forceinline__ unsigned store_group_codes(const GroupedRows& to, std::int64_t index, int count,
                                                      float (&values)[N], int lanes, float tensor) {
    const AmaxOrNan largest{.keeps_nan = !has_nan(to.dtype)};
    const float amax = warp_reduce(amax_of(to.dtype, values), largest, lanes);
    if (count <= 0) return 0;
    const CodeScale scale = group_scale(to.dtype, amax, to.groups.dtype, tensor);
#pragma unroll
    for (float& value : values) value *= scale.inverse;
    // What no code of four bits says: more than the largest, which a group seldom has, and NaN, which its scale says.
    if (to.dtype == DType::fp4_e2m1 && !(amax * scale.inverse < 7.0f)) [[unlikely]] {
        const float most = scale.inverse == scale.inverse ? 6.0f : 0.0f;
#pragma unroll
        for (float& value : values) value = fmaxf(fminf(value, most), 0.0f - most);
    }
    with_code(to.dtype, [&](auto* type) {
        store_codes<std::remove_pointer_t<decltype(type)>>(to.data, index, values, count, to.aligned);
    });
    return scale.bits;
}

// The same of a row whose elements begin at `begin`, and stores the scale.
template <int N>
__device__ __forceinline__ void store_group(const GroupedRows& to, std::int64_t begin, std::int64_t row,
                                            std::int64_t column, int count, float (&values)[N], int lanes,
                                            float tensor) {
    const unsigned bits = store_group_codes(to, begin + column, count, values, lanes, tensor);
    const int columns_log2 = 31 - __clz(lanes * N);
    const std::int64_t group = column >> columns_log2;
    if (count > 0 && column == group << columns_log2) store_group_scale(to.groups, row, group, bits);
}

// Calls `use` with the same rows, of which the compiler knows the format: whole vectors of one that production runs.
template <class Use>
__device__ __forceinline__ void with_known_format(const GroupedRows& rows, Use use) {
    const auto as = [&](DType codes, DType scales) {
        GroupedRows known = rows;
        known.dtype = codes;
        known.groups.dtype = scales;
        known.aligned = true;
        use(known);
    };
    if (rows.dtype == DType::fp8_e4m3) {
        rows.groups.dtype == DType::fp32 ? as(DType::fp8_e4m3, DType::fp32)
                                         : as(DType::fp8_e4m3, DType::ue8m0);
    } else {
        rows.groups.dtype == DType::fp8_e4m3 ? as(DType::fp4_e2m1, DType::fp8_e4m3)
                                             : as(DType::fp4_e2m1, DType::ue8m0);
    }
}
// Host: whether it is one of them.
inline bool has_known_format(const GroupedRows& rows) {
    return rows.aligned && (rows.dtype == DType::fp8_e4m3 || rows.dtype == DType::fp4_e2m1);
}

}  // namespace weft::inline WEFT_TARGET::kit
