// attention over keys in pages, and of packed sequences.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/attention/policy.h"
#include "ops/attention/test_config.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/case.h"
#include "weft/context.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(AttentionPlaces, RejectWhatTheContractExcludes) {
    const std::string pages = "attention q=bf16[2,5,4,64] k=bf16[9,16,2,64] v=bf16[9,16,2,64] ",
                      packed = "attention q=bf16[1,5,4,64] k=bf16[1,9,2,64] v=bf16[1,9,2,64] ",
                      table = "kv_lengths=int32[2] block_table=int32[2,4] ";
    EXPECT_EQ(test::open_rejection(pages + table), "accepted");
    EXPECT_THAT(test::open_rejection(pages + "block_table=int32[2,4]"),
                HasSubstr("attention.block_table: expected kv_lengths beside it"));
    EXPECT_THAT(test::open_rejection(pages + "kv_lengths=int32[2] block_table=int32[3,4]"),
                HasSubstr("attention.block_table: expected [batch=2, max_pages"));
    EXPECT_THAT(test::open_rejection(pages + table + "key_mask=uint8[2,64]"),
                HasSubstr("attention.key_mask"));
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[2,5,4,64] k=bf16[9,16,2,64] v=bf16[9,8,2,64] " + table),
        HasSubstr("attention.v: expected [pages=9, page_size=16, kv_heads=2, v_dim], got"));
    EXPECT_EQ(
        test::open_rejection(packed + "cu_seqlens_q=int32[4] cu_seqlens_k=int32[4] kv_lengths=int32[3]"),
        "accepted");
    EXPECT_THAT(test::open_rejection(packed + "cu_seqlens_q=int32[4] cu_seqlens_k=int32[5]"),
                HasSubstr("attention.cu_seqlens_k: expected [sequences+1=4], got [5]"));
    EXPECT_THAT(test::open_rejection(packed + "cu_seqlens_q=int32[4] kv_lengths=int32[4]"),
                HasSubstr("attention.cu_seqlens_q: expected [sequences+1=5], got [4]"));
    EXPECT_THAT(test::open_rejection(packed + "cu_seqlens_k=int32[4]"),
                HasSubstr("attention.cu_seqlens_k: expected cu_seqlens_q beside it"));
    EXPECT_THAT(test::open_rejection(packed + "cu_seqlens_q=int32[0]"),
                HasSubstr("attention.cu_seqlens_q: expected at least one offset"));
    EXPECT_THAT(test::open_rejection(packed + "cu_seqlens_q=int32[4] key_mask=uint8[1,9]"),
                HasSubstr("attention.key_mask"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[2,5,4,64] k=bf16[2,9,2,64] v=bf16[2,9,2,64] "
                                     "cu_seqlens_q=int32[4]"),
                HasSubstr("attention.q: expected a batch of 1 beside cu_seqlens_q, got 2"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,5,4,64] k=bf16[9,16,2,64] v=bf16[9,16,2,64] "
                                     "cu_seqlens_q=int32[4] cu_seqlens_k=int32[4] kv_lengths=int32[3] "
                                     "block_table=int32[3,4]"),
                HasSubstr("attention.cu_seqlens_k"));
}

TEST(AttentionPlaces, LeaveNoFloorWhereContentsSayWhatIsSeen) {
    Work work;
    const auto of = [&](const std::string& line) {
        Case::parse("attention " + line).with_call(kCpu, [&](const void* call) {
            work = Attention::contract().work(call);
        });
        return work;
    };
    EXPECT_TRUE(of("q=bf16[1,10,4,64] k=bf16[1,20,2,64] v=bf16[1,20,2,64] cu_seqlens_q=int32[4]").at_most);
    // A query sees a window's keys at most, and a cache that pages share is read once.
    EXPECT_EQ(of("q=bf16[1,10,4,64] k=bf16[1,20,2,64] v=bf16[1,20,2,64] cu_seqlens_q=int32[4] causal=true "
                 "window_left=3")
                  .flops,
              4.0 * 64 * 4 * 10 * 4);
    EXPECT_EQ(of("q=bf16[4,1,2,64] k=bf16[2,16,2,64] v=bf16[2,16,2,64] kv_lengths=int32[4] "
                 "block_table=int32[4,2]")
                  .bytes,
              2.0 * (2 * 2 * 16 * 2 * 64 + 2 * 4 * 2 * 64) + 4 * 4 + 4 * 4 * 2);
}

// Blocks are counted without knowing how long a sequence is.
TEST(AttentionPlaces, HaveRoomForEveryCutOfTheRows) {
    attention::Problem problem;
    problem.sequences = 3, problem.heads = 6, problem.all_rows = 100;
    attention::Config config{.tile = {64}, .splits = 2};
    EXPECT_EQ(attention::blocks(problem, config), 2 * (100 / 32 + 3) * 2);
}

constexpr std::uint16_t kNaN = 0x7fc0;

// Numbers of bf16 in [-1, 1).
std::vector<std::uint16_t> numbers(std::int64_t count, std::uint32_t state) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    for (std::uint16_t& value : values) {
        state = state * 1664525 + 1013904223;
        value = static_cast<std::uint16_t>(encode(DType::bf16, state / 2147483648.0 - 1));
    }
    return values;
}

// The keys of two batches in one piece each, and the same in pages: k and v as the halves of one cache, pages from the last
// on. What no length reaches is NaN there, and where no key is the table says `beyond`.
struct Paged {
    static constexpr std::int64_t kBatches = 2, kKeys = 130, kHeads = 2, kRow = 80,
                                  kQueries = 3;  // dims of 40
    std::int64_t size, a_row, pages;
    std::vector<std::uint16_t> q, k, v, cache;
    std::vector<std::int32_t> table, lengths{97, 130};

    Paged(std::int64_t size, std::int32_t beyond)
        : size(size),
          a_row((kKeys + size - 1) / size),
          pages(kBatches * a_row + 3),
          q(numbers(kBatches * kQueries * 2 * kRow, 1)),
          k(numbers(kBatches * a_row * size * kRow, 2)),
          v(numbers(kBatches * a_row * size * kRow, 3)),
          cache(static_cast<std::size_t>(2 * pages * size * kRow), kNaN) {
        for (std::int64_t i = 0; i < kBatches * a_row; ++i) {
            const std::int64_t page = pages - 1 - i, first = i % a_row * size;
            const std::int64_t keys =
                std::min<std::int64_t>(size, lengths[static_cast<std::size_t>(i / a_row)] - first);
            table.push_back(keys > 0 ? static_cast<std::int32_t>(page) : beyond);
            for (std::int64_t j = 0; j < keys; ++j) {
                const std::int64_t from = (i * size + j) * kRow, to = (page * size + j) * 2 * kRow;
                std::copy_n(k.begin() + from, kRow, cache.begin() + to);
                std::copy_n(v.begin() + from, kRow, cache.begin() + to + kRow);
            }
        }
    }
    std::vector<std::uint16_t> attend(Device device, bool in_pages, const char* implementation) {
        std::vector<std::uint16_t> out(q.size(), kNaN);
        Attention op;
        op.q = Tensor(q.data(), DType::bf16, {kBatches, kQueries, 2 * kHeads, kRow / kHeads}, device);
        op.k = Tensor(k.data(), DType::bf16, {kBatches, a_row * size, kHeads, kRow / kHeads}, device);
        op.v = Tensor(v.data(), DType::bf16, {kBatches, a_row * size, kHeads, kRow / kHeads}, device);
        op.kv_lengths = Tensor(lengths.data(), DType::int32, {kBatches}, device);
        op.out = Tensor(out.data(), DType::bf16, {kBatches, kQueries, 2 * kHeads, kRow / kHeads}, device);
        op.causal = true;
        if (in_pages) {
            op.k = Tensor(cache.data(), DType::bf16, {pages, size, kHeads, kRow / kHeads}, device);
            op.k.stride[0] = 2 * size * kRow, op.k.stride[1] = 2 * kRow;
            op.v = op.k, op.v.data = cache.data() + kRow;
            op.block_table = Tensor(table.data(), DType::int32, {kBatches, a_row}, device);
        }
        Context context = test::context_of(device, implementation);
        run(op, context);
        return out;
    }
};

// Where keys lie changes no bit of what is done with them.
TEST(AttentionPlaces, PagesAreAsGoodAsOnePiece) {
    for (const std::int64_t size : {1, 3, 8, 16, 64, 100, 200}) {
        Paged by_loops(size, -1);
        EXPECT_EQ(by_loops.attend(kCpu, true, ""), by_loops.attend(kCpu, false, "")) << size;
#if WEFT_HAS_EMULATOR
        for (const std::int32_t beyond :
             {-1, 0, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
            Paged keys(size, beyond);
            EXPECT_EQ(keys.attend(kEmulator, true, "flash_mma"), keys.attend(kEmulator, false, "flash_mma"))
                << size << " " << beyond;
            if (size % 8 != 0) continue;
            for (const char* implementation : {"flash_wgmma", "flash_decode"}) {
                EXPECT_EQ(keys.attend(kEmulator, true, implementation),
                          keys.attend(kEmulator, false, implementation))
                    << implementation << " " << size << " " << beyond;
            }
        }
#endif
    }
}

#if WEFT_HAS_EMULATOR
using test::config_of;
using test::expect_mma_right;

// The first page is none: its keys count, and their values are zero.
TEST(AttentionPlaces, WhatIsNoPageIsZeros) {
    for (const std::int32_t none :
         {-1, -2, 2, 3, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
        for (const auto& [size, implementation] :
             {std::pair{10, "flash_mma"}, std::pair{16, "flash_mma"}, std::pair{16, "flash_wgmma"},
              std::pair{16, "flash_decode"}}) {
            std::vector<std::uint16_t> q(64, 0), out(64),
                cache(static_cast<std::size_t>(2 * size * 64), 0x3f80);
            std::vector<std::int32_t> table{none, 1, 0}, lengths{3 * size};
            Attention op;
            op.q = Tensor(q.data(), DType::bf16, {1, 1, 1, 64}, kEmulator);
            op.k = op.v = Tensor(cache.data(), DType::bf16, {2, size, 1, 64}, kEmulator);
            op.kv_lengths = Tensor(lengths.data(), DType::int32, {1}, kEmulator);
            op.block_table = Tensor(table.data(), DType::int32, {1, 3}, kEmulator);
            op.out = Tensor(out.data(), DType::bf16, {1, 1, 1, 64}, kEmulator);
            Context context = test::context_of(kEmulator, implementation);
            run(op, context);
            for (const std::uint16_t value : out)
                EXPECT_NEAR(decode(DType::bf16, value), 2.0 / 3, 0x1p-8) << none << " " << size;
        }
    }
}

TEST(AttentionPlaces, PagesInSplitsAndGroups) {
    const char* lines[] = {
        "attention q=bf16[1,1,8,128] k=bf16[70,16,2,128] v=bf16[70,16,2,128] kv_lengths=int32[1] "
        "block_table=int32[1,64] lse=fp32[1,8,1] causal=true",
        "attention q=fp16[1,3,2,72] k=fp16[800,1,1,72] v=fp16[800,1,1,72] kv_lengths=int32[1] "
        "block_table=int32[1,700] sinks=fp32[2] lse=fp32[1,2,3] softcap=20 window_left=600",
        "attention q=bf16[1,6,1,256] k=bf16[9,100,1,256] v=bf16[9,100,1,256] kv_lengths=int32[1] "
        "block_table=int32[1,9] key_limits=int32[1,6]",
        "attention q=bf16[1,2,4,33] k=bf16[9,100,2,33] v=bf16[9,100,2,33] kv_lengths=int32[2] "
        "block_table=int32[2,9] cu_seqlens_q=int32[3] lse=fp32[1,4,2]"};
    for (const char* line : lines) {
        EXPECT_GT(config_of(line, "h200").splits, 1) << line;
        expect_mma_right(line, "h200", "flash_mma");
    }
    const char* groups =
        "attention q=bf16[40,1,2,24] k=bf16[50,64,1,24] v=bf16[50,64,1,24] kv_lengths=int32[40] "
        "block_table=int32[40,5]";
    EXPECT_GE(config_of(groups, "h200").groups, 2);
    expect_mma_right(groups, "h200", "flash_mma");
    expect_mma_right(
        "attention q=bf16[1,3,2,256] k=bf16[9,16,1,256] v=bf16[9,16,1,256] kv_lengths=int32[1] "
        "block_table=int32[1,13]",
        "rtx4090", "2 slots");
}

TEST(AttentionPlaces, PagesOnWgmma) {
    const char* lines[] = {
        "attention q=bf16[2,100,4,64] k=bf16[30,16,2,64] v=bf16[30,16,2,64] kv_lengths=int32[2] "
        "block_table=int32[2,20] lse=fp32[2,4,100] causal=true",
        "attention q=fp16[3,2,6,72] k=fp16[9,128,2,72] v=fp16[9,128,2,72] kv_lengths=int32[3] "
        "block_table=int32[3,4]",
        "attention q=bf16[2,40,4,128] k=bf16[50,24,1,128]{6400,256,128,1} v=bf16[50,24,1,128] "
        "kv_lengths=int32[2] block_table=int32[2,17]{20,1}",
        "attention q=bf16[1,70,8,256] k=bf16[20,64,1,256] v=bf16[20,64,1,256] kv_lengths=int32[1] "
        "block_table=int32[1,9] causal=true",
        "attention q=bf16[1,300,4,200] k=bf16[40,16,1,200] v=bf16[40,16,1,200] cu_seqlens_q=int32[6] "
        "kv_lengths=int32[5] block_table=int32[5,13] lse=fp32[1,4,300] causal=true"};
    for (const char* line : lines) {
        test::expect_right(line, "flash_wgmma", "blocks share the keys");
        test::expect_right_on_few(line);
    }
    const auto as_h200 = [](const char* line, const char* config) {
        const Outcome outcome = test::verify_as(line, "h200", "flash_wgmma");
        EXPECT_TRUE(outcome.passed) << outcome.why;
        EXPECT_THAT(outcome.implementation, testing::AllOf(HasSubstr("flash_wgmma"), HasSubstr(config)));
    };
    as_h200(
        "attention q=bf16[2,1,8,128] k=bf16[80,16,2,128] v=bf16[80,16,2,128] kv_lengths=int32[2] "
        "block_table=int32[2,32]",
        "2 blocks share the keys");
    as_h200(
        "attention q=bf16[1,1,8,128] k=bf16[200,16,2,128] v=bf16[200,16,2,128] kv_lengths=int32[1] "
        "block_table=int32[1,190]",
        " splits");
}

#endif

}  // namespace
}  // namespace weft
