// Element types, and their exact conversions to and from double.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace weft {

enum class DType : std::uint8_t {
    fp32,
    bf16,
    fp16,
    fp8_e4m3,  // OCP e4m3: max 448, no infinity
    fp8_e5m2,  // OCP e5m2: max 57344; weft saturates and never writes infinity
    int8,
    int32,
    int64,
    uint8,
    fp4_e2m1,  // two a byte, the even element in the low nibble; shapes and strides count elements
    ue8m0,     // a scale: 2^(code − 127), no sign, no zero, 0xff is NaN
    int4,      // two a byte, as fp4_e2m1
};
inline constexpr int kDTypeCount = 12;

std::string_view name(DType dtype);
std::optional<DType> parse_dtype(std::string_view text);

constexpr int bits(DType dtype) {
    constexpr int kBits[kDTypeCount] = {32, 16, 16, 8, 8, 8, 32, 64, 8, 4, 8, 4};
    return kBits[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) {
    return dtype <= DType::fp8_e5m2 || dtype == DType::fp4_e2m1 || dtype == DType::ue8m0;
}
constexpr bool is_fp8(DType dtype) { return dtype == DType::fp8_e4m3 || dtype == DType::fp8_e5m2; }

// Bytes that `elements` consecutive elements occupy.
constexpr std::int64_t bytes(DType dtype, std::int64_t elements) { return (elements * bits(dtype) + 7) / 8; }

// Largest finite value of a floating dtype.
double max_value(DType dtype);

// The value that `code` (the element's bits, zero-extended) stands for.
double decode(DType dtype, std::uint64_t code);

// The code nearest to `value`, ties to even. fp8 and fp4 saturate to the largest finite value (fp4 has no NaN: it
// becomes 0), and so does ue8m0, whose smallest value stands for all that is not positive; fp32, bf16 and fp16 overflow
// to infinity; integers saturate, and NaN becomes 0.
std::uint64_t encode(DType dtype, double value);

// `value` rounded to dtype: decode(encode(value)).
double round_to(DType dtype, double value);

// Element `index` (in elements) of an array of dtype; unaligned arrays are fine.
double load_element(DType dtype, const void* data, std::int64_t index);
void store_element(DType dtype, void* data, std::int64_t index, double value);
std::int64_t load_integer(DType dtype, const void* data, std::int64_t index);  // exact for int64
void store_integer(DType dtype, void* data, std::int64_t index, std::int64_t value);

// A small set of dtypes.
class DTypeSet {
   public:
    constexpr DTypeSet() = default;
    constexpr DTypeSet(DType dtype) : mask_(bit(dtype)) {}
    constexpr DTypeSet(std::initializer_list<DType> dtypes) {
        for (DType dtype : dtypes) mask_ |= bit(dtype);
    }
    constexpr bool contains(DType dtype) const { return (mask_ & bit(dtype)) != 0; }
    constexpr DTypeSet operator|(DTypeSet other) const {
        DTypeSet set = *this;
        set.mask_ |= other.mask_;
        return set;
    }

   private:
    static constexpr std::uint32_t bit(DType dtype) { return 1u << static_cast<int>(dtype); }
    std::uint32_t mask_ = 0;
};

inline constexpr DTypeSet kHalf{DType::bf16, DType::fp16};
inline constexpr DTypeSet kFloat = kHalf | DTypeSet{DType::fp32};
inline constexpr DTypeSet kFp8{DType::fp8_e4m3, DType::fp8_e5m2};
inline constexpr DTypeSet kNarrow = kFp8 | DTypeSet{DType::int8, DType::fp4_e2m1};  // stored with scales
inline constexpr DTypeSet kIndex{DType::int32, DType::int64};

}  // namespace weft
