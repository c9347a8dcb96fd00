// Exact conversions between double and every element type: one generic rounding, driven by a table of
// formats.
#include "weft/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace weft {
namespace {

struct Format {
    int exponent_bits, mantissa_bits, bias;
    double max;
    bool saturates;  // overflow gives max instead of infinity
    bool has_infinity;
    std::uint64_t nan;  // the code of NaN; 0 where there is none
    std::uint64_t max_code;
};

constexpr Format kFormats[kDTypeCount] = {
    {8, 23, 127, 0x1.fffffep127, false, true, 0x7fc00000, 0x7f7fffff},  // fp32
    {8, 7, 127, 0x1.fep127, false, true, 0x7fc0, 0x7f7f},               // bf16
    {5, 10, 15, 65504, false, true, 0x7e00, 0x7bff},                    // fp16
    {4, 3, 7, 448, true, false, 0x7f, 0x7e},                            // fp8_e4m3
    {5, 2, 15, 57344, true, true, 0x7f, 0x7b},                          // fp8_e5m2
    {},
    {},
    {},
    {},                                             // integers
    {2, 1, 1, 6, true, false, 0, 7},                // fp4_e2m1
    {8, 0, 127, 0x1p127, true, false, 0xff, 0xfe},  // ue8m0: no sign, and code 0 is a power of two as well
    {},                                             // int4
};

constexpr std::string_view kNames[kDTypeCount] = {"fp32",  "bf16",  "fp16",  "fp8_e4m3", "fp8_e5m2", "int8",
                                                  "int32", "int64", "uint8", "fp4_e2m1", "ue8m0",    "int4"};

const Format& format(DType dtype) { return kFormats[static_cast<int>(dtype)]; }

struct IntegerRange {
    double low, high;
};
IntegerRange integer_range(DType dtype) {
    switch (dtype) {
        case DType::int8: return {-128, 127};
        case DType::int4: return {-8, 7};
        case DType::int32: return {-0x1p31, 0x1p31 - 1};
        case DType::uint8: return {0, 255};
        default: return {-0x1p63, 0x1p63};
    }
}

std::int64_t saturate_integer(DType dtype, double value) {
    if (std::isnan(value)) return 0;
    const auto [low, high] = integer_range(dtype);
    const double rounded = std::nearbyint(value);
    if (rounded <= low) return static_cast<std::int64_t>(low);
    if (rounded >= high) {
        return dtype == DType::int64 ? std::numeric_limits<std::int64_t>::max()
                                     : static_cast<std::int64_t>(high);
    }
    return static_cast<std::int64_t>(rounded);
}

double decode_float(const Format& f, std::uint64_t code) {
    const std::uint64_t sign_bit = std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
    const double sign = (code & sign_bit) != 0 ? -1.0 : 1.0;
    const std::uint64_t magnitude = code & (sign_bit - 1);
    const std::uint64_t mantissa = magnitude & ((std::uint64_t{1} << f.mantissa_bits) - 1);
    const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
    const int top = (1 << f.exponent_bits) - 1;
    if (f.has_infinity && exponent == top) {
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    }
    if (f.nan != 0 && !f.has_infinity && magnitude == f.nan) return std::numeric_limits<double>::quiet_NaN();
    const double unit = std::ldexp(static_cast<double>(mantissa), -f.mantissa_bits);
    if (exponent == 0) return sign * std::ldexp(unit, 1 - f.bias);
    return sign * std::ldexp(1.0 + unit, exponent - f.bias);
}

// Codes of one sign are ordered as their values are, so rounding up is adding one, also into the next binade
// and from the largest subnormal to the smallest normal number.
std::uint64_t encode_float(const Format& f, double value) {
    const std::uint64_t sign_bit = std::uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
    const std::uint64_t sign = std::signbit(value) ? sign_bit : 0;
    if (std::isnan(value)) return f.nan;
    const std::uint64_t over =
        f.saturates ? f.max_code : ((std::uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
    if (std::isinf(value)) return sign | over;
    const auto bits = std::bit_cast<std::uint64_t>(value);
    const int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    const std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    const int binade = std::max(exponent, 1 - f.bias);  // of the result; subnormals share the lowest one
    const int shift = 52 - f.mantissa_bits + binade - exponent;
    if (shift > 53) return sign;  // less than half of the smallest number
    const std::uint64_t half = std::uint64_t{1} << (shift - 1), rest = mantissa & (2 * half - 1);
    std::uint64_t steps = mantissa >> shift;
    if (rest > half || (rest == half && steps % 2 == 1)) ++steps;
    const std::uint64_t code = (static_cast<std::uint64_t>(binade + f.bias - 1) << f.mantissa_bits) + steps;
    return sign | (code > f.max_code ? over : code);
}

double decode_power(std::uint64_t code) {
    const Format& f = format(DType::ue8m0);
    return code == f.nan ? std::numeric_limits<double>::quiet_NaN()
                         : std::ldexp(1.0, static_cast<int>(code) - f.bias);
}

// The middle between two powers goes to the even code.
std::uint64_t encode_power(double value) {
    const Format& f = format(DType::ue8m0);
    if (std::isnan(value)) return f.nan;
    if (value <= std::ldexp(1.0, -f.bias)) return 0;
    if (value >= f.max) return f.max_code;
    int exponent = 0;
    const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
    const auto code = static_cast<std::uint64_t>(exponent - 1 + f.bias);
    return code + (fraction > 0.75 || (fraction == 0.75 && code % 2 == 1) ? 1 : 0);
}

template <class T>
T read(const void* data, std::int64_t index) {
    T value;
    std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
}
template <class T>
void write(void* data, std::int64_t index, T value) {
    std::memcpy(static_cast<char*>(data) + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

std::uint64_t load_code(DType dtype, const void* data, std::int64_t index) {
    switch (bits(dtype)) {
        case 64: return read<std::uint64_t>(data, index);
        case 32: return read<std::uint32_t>(data, index);
        case 16: return read<std::uint16_t>(data, index);
        case 8: return read<std::uint8_t>(data, index);
        default: return (read<std::uint8_t>(data, index / 2) >> (index % 2 * 4)) & 0xf;
    }
}

void store_code(DType dtype, void* data, std::int64_t index, std::uint64_t code) {
    switch (bits(dtype)) {
        case 64: return write(data, index, code);
        case 32: return write(data, index, static_cast<std::uint32_t>(code));
        case 16: return write(data, index, static_cast<std::uint16_t>(code));
        case 8: return write(data, index, static_cast<std::uint8_t>(code));
        default: {
            const int shift = static_cast<int>(index % 2 * 4);
            const auto old = read<std::uint8_t>(data, index / 2);
            write(data, index / 2, static_cast<std::uint8_t>((old & (0xf0 >> shift)) | (code << shift)));
        }
    }
}

// Decoding is a table look-up for codes of up to 16 bits.
const double* decode_table(DType dtype) {
    static const auto kTables = [] {
        std::array<std::vector<double>, kDTypeCount> tables;
        for (const DType d : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1}) {
            const std::uint64_t codes = std::uint64_t{1} << bits(d);
            for (std::uint64_t code = 0; code < codes; ++code) {
                tables[static_cast<std::size_t>(d)].push_back(decode_float(format(d), code));
            }
        }
        for (std::uint64_t code = 0; code < 256; ++code)
            tables[static_cast<std::size_t>(DType::ue8m0)].push_back(decode_power(code));
        return tables;
    }();
    return kTables[static_cast<std::size_t>(dtype)].data();
}

}  // namespace

std::string_view name(DType dtype) { return kNames[static_cast<int>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view text) {
    for (int i = 0; i < kDTypeCount; ++i) {
        if (kNames[i] == text) return static_cast<DType>(i);
    }
    return std::nullopt;
}

double max_value(DType dtype) { return is_floating(dtype) ? format(dtype).max : integer_range(dtype).high; }

double decode(DType dtype, std::uint64_t code) {
    switch (dtype) {
        case DType::fp32: return std::bit_cast<float>(static_cast<std::uint32_t>(code));
        case DType::int8: return static_cast<std::int8_t>(code);
        case DType::int4: return static_cast<double>((static_cast<int>(code & 0xf) ^ 8) - 8);
        case DType::int32: return static_cast<std::int32_t>(code);
        case DType::int64: return static_cast<double>(static_cast<std::int64_t>(code));
        case DType::uint8: return static_cast<double>(code & 0xff);
        default: return decode_table(dtype)[code & ((std::uint64_t{1} << bits(dtype)) - 1)];
    }
}

std::uint64_t encode(DType dtype, double value) {
    if (dtype == DType::fp32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (dtype == DType::ue8m0) return encode_power(value);
    if (is_floating(dtype)) return encode_float(format(dtype), value);
    const std::uint64_t all = bits(dtype) == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits(dtype)) - 1;
    return static_cast<std::uint64_t>(saturate_integer(dtype, value)) & all;
}

double round_to(DType dtype, double value) { return decode(dtype, encode(dtype, value)); }

double load_element(DType dtype, const void* data, std::int64_t index) {
    return decode(dtype, load_code(dtype, data, index));
}

void store_element(DType dtype, void* data, std::int64_t index, double value) {
    store_code(dtype, data, index, encode(dtype, value));
}

std::int64_t load_integer(DType dtype, const void* data, std::int64_t index) {
    if (dtype == DType::int64) return read<std::int64_t>(data, index);
    return static_cast<std::int64_t>(load_element(dtype, data, index));
}

void store_integer(DType dtype, void* data, std::int64_t index, std::int64_t value) {
    if (dtype == DType::int64) return write(data, index, value);
    store_element(dtype, data, index, static_cast<double>(value));
}

}  // namespace weft
