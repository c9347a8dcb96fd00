// modulate: what generated cases don't say.
#include "ops/modulate/modulate.h"

#include <gmock/gmock.h>

#include "tests/ops/support.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::rejection;
using ::testing::HasSubstr;

// Of a table the rows that are picked, and all where there are fewer.
TEST(Modulate, MovesNoMoreOfATableThanIsPicked) {
    const auto bytes = [](const std::string& line) {
        double found = 0;
        Case::parse(line).with_call(kCpu,
                                    [&](const void* call) { found = Modulate::contract().work(call).bytes; });
        return found;
    };
    const double rows = 2 * 4 * 8 * 2 + 4 * 8;  // x, out, index
    EXPECT_EQ(bytes("modulate x=bf16[4,8] index=int64[4] scale=bf16[100,8] out=bf16[4,8]"), rows + 4 * 8 * 2);
    EXPECT_EQ(bytes("modulate x=bf16[4,8] index=int64[4] scale=bf16[3,8] out=bf16[4,8]"), rows + 3 * 8 * 2);
    EXPECT_EQ(bytes("modulate x=bf16[4,8] scale=bf16[4,8] out=bf16[4,8]"), 3 * 4 * 8 * 2);
}

TEST(Modulate, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("modulate x=bf16[2,6,8] scale=bf16[6,8] out=bf16"),
                HasSubstr("modulate.scale: expected [what broadcasts to ...=(2, 6), dim=8], got [6, 8]"));
    EXPECT_THAT(rejection("modulate x=bf16[6,8] index=int32[6] out=bf16"),
                HasSubstr("modulate.index: expected a table beside it"));
    EXPECT_THAT(rejection("modulate x=bf16[6,8] index=int32[6] shift=bf16[0,8] out=bf16"),
                HasSubstr("modulate.shift: expected at least one row"));
    EXPECT_THAT(rejection("modulate x=bf16[6,8] scale=fp32[8] out=bf16 rounding=eager"),
                HasSubstr("modulate.scale: expected x's dtype with rounding=eager, got fp32"));
    EXPECT_THAT(rejection("modulate x=bf16[6,8] index=int32[6] shift=bf16[6,8] out=@shift"),
                HasSubstr("modulate.out: must not be the memory of shift where index picks its rows"));
    EXPECT_THAT(rejection("modulate x=int8[6,8] out=bf16"), HasSubstr("modulate.x: expected dtype"));
    // The least that these are for, and what lies beside it.
    EXPECT_THAT(rejection("modulate x=bf16[1,1] index=int32[1] shift=bf16[1,1] out=@shift"),
                HasSubstr("modulate.out: must not be the memory of shift"));
    EXPECT_THAT(rejection("modulate x=bf16[1,8] index=int32[1] scale=bf16[0,8] out=bf16"),
                HasSubstr("modulate.scale: expected at least one row"));
    for (const char* line : {"modulate x=bf16[6,8] index=int32[6] shift=bf16[4,8] out=bf16",
                             "modulate x=bf16[6,8] index=int32[6] scale=bf16[4,8] out=bf16",
                             "modulate x=bf16[0,8] index=int32[0] shift=bf16[0,8] out=bf16[0,8]",
                             "modulate x=bf16[6,8] shift=bf16[6,8] out=@shift"})
        EXPECT_EQ(rejection(line), "accepted") << line;
}

// A tensor without elements has no memory that another could overwrite.
TEST(Modulate, TakesEmptyTensorsOfOneAddress) {
    Modulate op{.x = Tensor(nullptr, DType::bf16, {0, 8}), .index = Tensor(nullptr, DType::int32, {0})};
    op.shift = Tensor(nullptr, DType::bf16, {6, 8});
    op.out = Tensor(nullptr, DType::bf16, {0, 8});
    std::uint16_t table[6 * 8] = {};
    op.shift.data = op.x.data = op.out.data = table;
    EXPECT_NO_THROW(run(op));
}

// x = 1 + 2^-7, scale = 2^-8: 1 + scale is 1 in bf16, but not in fp32, and the product then rounds up. Neither mode
// passes for the other.
TEST(Modulate, RoundsOnceOrAfterEachStep) {
    for (const Device device : test::host_devices()) {
        std::uint16_t x = 0x3f81, scale = 0x3b80, out = 0;
        Modulate op{.x = Tensor(&x, DType::bf16, {1}, device),
                    .index = {},
                    .scale = Tensor(&scale, DType::bf16, {1}, device),
                    .shift = {},
                    .out = Tensor(&out, DType::bf16, {1}, device)};
        run(op);
        EXPECT_EQ(decode(DType::bf16, out), 1.015625);
        op.rounding = Rounding::eager;
        run(op);
        EXPECT_EQ(decode(DType::bf16, out), 1.0078125);
    }
}

// Rows without gaps and operands of their own are one long row.
TEST(Modulate, FoldsDenseRows) {
    if (test::configuration("modulate x=bf16[4,8] out=bf16").empty())
        GTEST_SKIP() << "no kernels in this build";
    const std::string long_row = test::configuration("modulate x=bf16[1,12288] shift=bf16[1,12288] out=bf16");
    EXPECT_EQ(test::configuration("modulate x=bf16[4,3072] shift=bf16[4,3072] out=bf16"), long_row);
    EXPECT_NE(test::configuration("modulate x=bf16[4,3072] scale=bf16[3072] out=bf16"), long_row);
}

}  // namespace
}  // namespace weft
