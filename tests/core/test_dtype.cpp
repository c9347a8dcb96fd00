// Conversions, exhaustively: against CUDA's host conversions where weft has them, and against plain
// definitions.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <limits>

#include "verify/random.h"
#include "weft/dtype.h"

#if WEFT_HAS_EMULATOR
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#endif

namespace weft {
namespace {

constexpr DType kSmall[] = {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1};

bool same(double a, double b) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// All finite values of a dtype that are not negative, in order of their codes.
std::vector<double> magnitudes(DType dtype) {
    std::vector<double> values;
    for (std::uint64_t code = 0; code < std::uint64_t{1} << (bits(dtype) - 1); ++code) {
        if (const double v = decode(dtype, code); std::isfinite(v)) values.push_back(v);
    }
    return values;
}

TEST(DTypes, NamesRoundTrip) {
    for (int i = 0; i < kDTypeCount; ++i) {
        const auto dtype = static_cast<DType>(i);
        EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    }
    EXPECT_EQ(parse_dtype("fp64"), std::nullopt);
    EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DTypes, SizesAndLimits) {
    EXPECT_EQ(bytes(DType::bf16, 3), 6);
    EXPECT_EQ(bytes(DType::fp4_e2m1, 3), 2);
    EXPECT_EQ(bytes(DType::int64, 0), 0);
    EXPECT_EQ(max_value(DType::fp8_e4m3), 448);
    EXPECT_EQ(max_value(DType::fp8_e5m2), 57344);
    EXPECT_EQ(max_value(DType::fp16), 65504);
    EXPECT_EQ(max_value(DType::fp4_e2m1), 6);
    EXPECT_EQ(max_value(DType::bf16), std::ldexp(255.0 / 128, 127));
    EXPECT_EQ(max_value(DType::int8), 127);
    EXPECT_EQ(bytes(DType::int4, 5), 3);
    EXPECT_EQ(max_value(DType::int4), 7);
    EXPECT_EQ(max_value(DType::ue8m0), std::ldexp(1.0, 127));
}

TEST(DTypes, EveryCodeComesBack) {
    for (const DType dtype : kSmall) {
        for (std::uint64_t code = 0; code < std::uint64_t{1} << bits(dtype); ++code) {
            const double value = decode(dtype, code);
            if (std::isnan(value)) {
                EXPECT_TRUE(std::isnan(round_to(dtype, value)));
            } else if (dtype != DType::fp8_e5m2 ||
                       std::isfinite(value)) {  // weft never writes an fp8 infinity
                EXPECT_EQ(encode(dtype, value), code) << name(dtype);
            }
        }
    }
}

// The definition of round to nearest even, from the sorted list of all values: no arithmetic on bits.
TEST(DTypes, RoundsToNearestEvenBetweenNeighbours) {
    for (const DType dtype : kSmall) {
        const std::vector<double> all = magnitudes(dtype);
        for (std::size_t i = 0; i + 1 < all.size(); ++i) {
            const double low = all[i], high = all[i + 1], middle = (low + high) / 2,
                         even = i % 2 == 0 ? low : high;
            ASSERT_EQ(round_to(dtype, middle), even) << name(dtype) << " " << middle;
            ASSERT_EQ(round_to(dtype, std::nextafter(middle, low)), low) << name(dtype) << " " << middle;
            ASSERT_EQ(round_to(dtype, std::nextafter(middle, high)), high) << name(dtype) << " " << middle;
            ASSERT_EQ(round_to(dtype, -middle), -even) << name(dtype) << " " << middle;
        }
    }
}

TEST(DTypes, BeyondTheLargest) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1}) {
        for (const double huge : {1e6, 1e300, kInfinity}) {
            EXPECT_EQ(round_to(dtype, huge), max_value(dtype)) << name(dtype);
            EXPECT_EQ(round_to(dtype, -huge), -max_value(dtype)) << name(dtype);
        }
    }
    for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
        EXPECT_EQ(round_to(dtype, kInfinity), kInfinity);
        EXPECT_EQ(round_to(dtype, -1e300), -kInfinity);
    }
    EXPECT_EQ(round_to(DType::fp16, 65519.999), 65504);
    EXPECT_EQ(round_to(DType::fp16, 65520), kInfinity);
    EXPECT_TRUE(std::isnan(round_to(DType::fp8_e4m3, std::nan(""))));
    EXPECT_TRUE(std::isnan(round_to(DType::fp8_e5m2, std::nan(""))));
    EXPECT_EQ(round_to(DType::fp4_e2m1, std::nan("")), 0);
}

TEST(DTypes, TinyValuesAndZeros) {
    for (const DType dtype : kSmall) {
        const double smallest = magnitudes(dtype)[1];
        EXPECT_TRUE(same(round_to(dtype, -0.0), -0.0)) << name(dtype);
        EXPECT_TRUE(same(round_to(dtype, -smallest / 2), -0.0)) << name(dtype);  // a tie, to even
        EXPECT_EQ(round_to(dtype, std::nextafter(smallest / 2, 1)), smallest) << name(dtype);
        EXPECT_EQ(round_to(dtype, std::numeric_limits<double>::denorm_min()), 0) << name(dtype);
    }
}

TEST(DTypes, Fp4HasItsSixteenValues) {
    EXPECT_THAT(magnitudes(DType::fp4_e2m1), ::testing::ElementsAre(0, 0.5, 1, 1.5, 2, 3, 4, 6));
}

// All codes are powers of two and one is NaN; nothing has a sign.
TEST(DTypes, Ue8m0IsPowersOfTwo) {
    for (int code = 0; code < 255; ++code) {
        const auto c = static_cast<std::uint64_t>(code);
        const double power = std::pow(2.0, code - 127);
        ASSERT_EQ(decode(DType::ue8m0, c), power);
        ASSERT_EQ(encode(DType::ue8m0, power), c);
        if (code == 254) continue;
        ASSERT_EQ(encode(DType::ue8m0, power * 1.5), c + c % 2);  // the middle: to the even code
        ASSERT_EQ(encode(DType::ue8m0, std::nextafter(power * 1.5, 0)), c);
        ASSERT_EQ(encode(DType::ue8m0, std::nextafter(power * 1.5, 1e39)), c + 1);
    }
    EXPECT_TRUE(std::isnan(decode(DType::ue8m0, 255)));
    EXPECT_EQ(encode(DType::ue8m0, std::nan("")), 255u);
    for (const double none : {0.0, -0.0, -5.0, 1e-300, -static_cast<double>(INFINITY)})
        EXPECT_EQ(encode(DType::ue8m0, none), 0u);
    for (const double huge : {0x1p127, 0x1.8p127, 1e300, static_cast<double>(INFINITY)})
        EXPECT_EQ(encode(DType::ue8m0, huge), 254u);
}

TEST(DTypes, Int4IsTwosComplementInNibbles) {
    for (int value = -8; value < 8; ++value) {
        const auto code = static_cast<std::uint64_t>(value) & 0xf;
        EXPECT_EQ(decode(DType::int4, code), value);
        EXPECT_EQ(encode(DType::int4, value), code);
    }
    EXPECT_EQ(round_to(DType::int4, 7.6), 7);
    EXPECT_EQ(round_to(DType::int4, -100), -8);
    EXPECT_EQ(round_to(DType::int4, 2.5), 2);
    EXPECT_EQ(round_to(DType::int4, std::nan("")), 0);
    unsigned char memory[2] = {};
    store_integer(DType::int4, memory, 1, -3);
    store_integer(DType::int4, memory, 2, 7);
    EXPECT_EQ(memory[0], 0xd0);
    EXPECT_EQ(memory[1], 0x07);
    EXPECT_EQ(load_integer(DType::int4, memory, 1), -3);
}

TEST(DTypes, IntegersSaturateAndRoundToEven) {
    EXPECT_EQ(round_to(DType::int8, 200), 127);
    EXPECT_EQ(round_to(DType::int8, -1e9), -128);
    EXPECT_EQ(round_to(DType::uint8, -3), 0);
    EXPECT_EQ(round_to(DType::uint8, 2.5), 2);
    EXPECT_EQ(round_to(DType::int32, 3.5), 4);
    EXPECT_EQ(round_to(DType::int32, 1e12), 2147483647.0);
    EXPECT_EQ(round_to(DType::int32, std::nan("")), 0);
    std::int64_t big = 0;
    store_integer(DType::int64, &big, 0, std::numeric_limits<std::int64_t>::max() - 1);
    EXPECT_EQ(load_integer(DType::int64, &big, 0), std::numeric_limits<std::int64_t>::max() - 1);
    store_element(DType::int64, &big, 0, 1e30);
    EXPECT_EQ(big, std::numeric_limits<std::int64_t>::max());
    store_element(DType::int64, &big, 0, -1e30);
    EXPECT_EQ(big, std::numeric_limits<std::int64_t>::min());
}

TEST(DTypes, ElementsAtOddAddressesAndInNibbles) {
    unsigned char memory[16] = {};
    store_element(DType::fp32, memory + 1, 1, 1.5);
    EXPECT_EQ(load_element(DType::fp32, memory + 1, 1), 1.5);
    store_element(DType::fp4_e2m1, memory, 0, 6);
    store_element(DType::fp4_e2m1, memory, 1, -0.5);
    EXPECT_EQ(memory[0], 0x97);  // the even element in the low nibble
    EXPECT_EQ(load_element(DType::fp4_e2m1, memory, 0), 6);
    EXPECT_EQ(load_element(DType::fp4_e2m1, memory, 1), -0.5);
}

TEST(DTypes, SetsSpeakForThemselves) {
    EXPECT_TRUE(kFloat.contains(DType::fp32));
    EXPECT_FALSE(kHalf.contains(DType::fp32));
    EXPECT_TRUE((kHalf | kFp8).contains(DType::fp8_e5m2));
}

#if WEFT_HAS_EMULATOR
// Values on which conversions differ if they differ: neighbours and middles of all codes of a dtype, and
// random bits.
std::vector<float> probes(DType dtype) {
    std::vector<float> values = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e-45f, 3.4e38f};
    const std::vector<double> all = magnitudes(dtype);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        const auto middle = static_cast<float>((all[i] + all[i + 1]) / 2);
        for (const float v : {static_cast<float>(all[i]), std::nextafter(middle, 0.0f), middle,
                              std::nextafter(middle, 1e38f)}) {
            values.push_back(v);
            values.push_back(-v);
        }
    }
    Random random(7);
    for (int i = 0; i < 200000; ++i)
        values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random.bits())));
    return values;
}

template <class Convert>
void agrees(DType dtype, Convert convert) {
    for (const float v : probes(dtype)) {
        const double ours = round_to(dtype, static_cast<double>(v)), theirs = decode(dtype, convert(v));
        ASSERT_TRUE(same(ours, theirs) || (std::isnan(ours) && std::isnan(theirs)))
            << name(dtype) << " of " << v << ": " << ours << ", CUDA " << theirs;
    }
}

TEST(DTypes, AgreeWithCudasConversions) {
    agrees(DType::bf16, [](float v) { return std::bit_cast<std::uint16_t>(__float2bfloat16_rn(v)); });
    agrees(DType::fp16, [](float v) { return std::bit_cast<std::uint16_t>(__float2half_rn(v)); });
    agrees(DType::fp8_e4m3, [](float v) { return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3); });
    agrees(DType::fp8_e5m2, [](float v) { return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2); });
}

TEST(DTypes, Fp4AndUe8m0AgreeWithCudasConversions) {
    for (const float v : probes(DType::fp4_e2m1)) {
        if (std::isnan(v)) continue;  // CUDA makes 6 of it
        const auto theirs = static_cast<std::uint64_t>(__nv_cvt_float_to_fp4(v, __NV_E2M1, cudaRoundNearest));
        ASSERT_EQ(encode(DType::fp4_e2m1, v), theirs & 0xf) << v;
    }
    for (unsigned code = 0; code < 255; ++code) {
        const auto byte = static_cast<__nv_fp8_storage_t>(code);
        ASSERT_EQ(decode(DType::ue8m0, code),
                  __bfloat162float(__nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(byte))));
    }
}

TEST(DTypes, DecodeAsCudaDoes) {
    for (std::uint32_t code = 0; code < 65536; ++code) {
        const auto bits = static_cast<std::uint16_t>(code);
        ASSERT_TRUE(same(decode(DType::bf16, code), __bfloat162float(std::bit_cast<__nv_bfloat16>(bits))));
        ASSERT_TRUE(same(decode(DType::fp16, code), __half2float(std::bit_cast<__half>(bits))));
    }
    for (unsigned code = 0; code < 256; ++code) {
        const auto byte = static_cast<__nv_fp8_storage_t>(code);
        ASSERT_TRUE(same(decode(DType::fp8_e4m3, code),
                         __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)))));
        ASSERT_TRUE(same(decode(DType::fp8_e5m2, code),
                         __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E5M2)))));
    }
}
#endif

}  // namespace
}  // namespace weft
