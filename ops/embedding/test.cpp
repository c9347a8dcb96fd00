// embedding: what generated cases don't say.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include "ops/embedding/embedding.h"
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Embedding, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(rejection("embedding ids=fp32[4] table=bf16[9,8] out=bf16[4,8]"),
                HasSubstr("embedding.ids: expected dtype"));
    EXPECT_THAT(rejection("embedding ids=int32[4]{2} table=bf16[9,8] out=bf16[4,8]"),
                HasSubstr("embedding.ids: must be dense"));
    EXPECT_THAT(rejection("embedding ids=int32[4] table=bf16[9,8] out=bf16[5,8]"),
                HasSubstr("embedding.out: expected"));
    EXPECT_THAT(rejection("embedding ids=int32[4] table=bf16[9,8,1] out=bf16[4,8]"),
                HasSubstr("embedding.table: expected [vocab, dim], got [9, 8, 1]"));
    EXPECT_THAT(rejection("embedding ids=int32[4] table=bf16[0,8] out=bf16[4,8]"),
                HasSubstr("embedding.table: expected at least one row, got none"));
    EXPECT_EQ(rejection("embedding ids=int32[0] table=bf16[0,8] out=bf16[0,8]"), "accepted");
    EXPECT_THAT(rejection("embedding ids=int32[4] table=fp8_e4m3[9,8] out=bf16[4,8]"),
                HasSubstr("embedding.table: expected dtype"));
}

TEST(Embedding, AnIdOutsideTheTable) {
    for (const DType dtype : {DType::int32, DType::int64}) {
        HostTensor ids(dtype, {4}, {1, -1, 3, 0}), table(DType::fp32, {3, 2}, {1, 2, 3, 4, 5, 6}),
            out(DType::fp32, {4, 2});
        const Embedding op{.ids = ids.on(kCpu), .table = table.on(kCpu), .out = out.on(kCpu)};
        EXPECT_THAT(test::failure(op),
                    HasSubstr("embedding.ids: expected numbers in [0, vocab=3), or -1: none, got 3 at 2"));
        for (const Device device : test::host_devices()) {
            if (device == kCpu) continue;
            run(Embedding{.ids = ids.on(device), .table = table.on(device), .out = out.on(device)});
            const double expected[] = {3, 4, 0, 0, 0, 0, 1, 2};
            for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]) << i;
        }
    }
}

// 45.25 is √2048 in bf16: Gemma's multiplier, in an arithmetic whose only rounding is the product's.
TEST(Embedding, ScalesAsGemmaDoes) {
    HostTensor ids(DType::int64, {1, 1}, {0}), table(DType::bf16, {1, 4}, {0.0123, -1.7, 3.14, 100});
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::bf16, {1, 1, 4});
        run(Embedding{
            .ids = ids.on(device), .table = table.on(device), .out = out.on(device), .scale = 45.25f});
        for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], round_to(DType::bf16, table[i] * 45.25));
    }
}

// On reserved address space, of which pages exist only where rows lie: numbers cut to 32 bits find rows of zeros, or none.
TEST(Embedding, TablesOfMoreThanTwoToThe31Rows) {
    constexpr std::int64_t kRows = (std::int64_t{1} << 32) + 4;
    constexpr std::size_t kBytes = kRows * 8 * 2;
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    const double rows[] = {(std::int64_t{1} << 31) + 1.0, 5, kRows - 1.0};
    HostTensor ids(DType::int64, {3}, {rows[0], rows[1], rows[2]});
    for (int t = 0; t < 3; ++t) {
        for (int i = 0; i < 8; ++i)
            store_element(DType::bf16, memory, static_cast<std::int64_t>(rows[t]) * 8 + i, 10 * t + i + 1);
    }
    for (const Device device : test::host_devices()) {
        for (const DType dtype : {DType::bf16, DType::fp32}) {
            HostTensor out(dtype, {3, 8});
            run(Embedding{.ids = ids.on(device),
                          .table = Tensor(memory, DType::bf16, {kRows, 8}, device),
                          .out = out.on(device)});
            for (int i = 0; i < 24; ++i)
                EXPECT_EQ(out[i], 10 * (i / 8) + i % 8 + 1) << i << " on " << name(device.type);
        }
    }
    munmap(memory, kBytes);
}

}  // namespace
}  // namespace weft
