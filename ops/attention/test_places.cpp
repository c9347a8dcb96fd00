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
        HasSubstr("attention.v: expected [pages=9, page_size=16, kv_heads=2, head_dim=64], got"));
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
        Context context = context_for(*find_op("attention"), device, implementation);
        run(op, context);
        return out;
    }
};

// Where keys lie changes no bit of what is done with them.
TEST(AttentionPlaces, PagesAreAsGoodAsOnePiece) {
    for (const std::int64_t size : {1, 3, 16, 64, 100, 200}) {
        Paged by_loops(size, -1);
        EXPECT_EQ(by_loops.attend(kCpu, true, ""), by_loops.attend(kCpu, false, "")) << size;
#if WEFT_HAS_EMULATOR
        for (const std::int32_t beyond :
             {-1, 0, std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
            Paged keys(size, beyond);
            EXPECT_EQ(keys.attend(kEmulator, true, "flash_mma"), keys.attend(kEmulator, false, "flash_mma"))
                << size << " " << beyond;
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
        std::vector<std::uint16_t> q(64, 0), cache(2 * 10 * 64, 0x3f80), out(64);
        std::vector<std::int32_t> table{none, 1, 0}, lengths{30};
        Attention op;
        op.q = Tensor(q.data(), DType::bf16, {1, 1, 1, 64}, kEmulator);
        op.k = op.v = Tensor(cache.data(), DType::bf16, {2, 10, 1, 64}, kEmulator);
        op.kv_lengths = Tensor(lengths.data(), DType::int32, {1}, kEmulator);
        op.block_table = Tensor(table.data(), DType::int32, {1, 3}, kEmulator);
        op.out = Tensor(out.data(), DType::bf16, {1, 1, 1, 64}, kEmulator);
        run(op);
        for (const std::uint16_t value : out)
            EXPECT_NEAR(decode(DType::bf16, value), 2.0 / 3, 0x1p-8) << none;
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

// What packed queries see: q is zero, so that all keys of a sequence count alike; every value is its key's number in q's
// tensor, so that outputs are the means of the first and the last key that are seen.
struct Packed {
    std::vector<std::int32_t> queries, keys;  // offsets
    std::vector<std::uint16_t> q, k, v, out;

    Packed(std::vector<std::int32_t> queries, std::vector<std::int32_t> keys)
        : queries(std::move(queries)), keys(std::move(keys)) {
        q.assign(static_cast<std::size_t>(std::max(1, this->queries.back())) * 2 * 16, 0);
        k.assign(static_cast<std::size_t>(std::max(1, this->keys.back())) * 16, 0x3f80);
        v = k, out.assign(q.size(), kNaN);
        for (std::size_t i = 0; i < v.size(); ++i)
            v[i] = static_cast<std::uint16_t>(encode(DType::fp16, static_cast<double>(i / 16) + 1));
    }
    Attention call() {
        const auto tensor = [](std::vector<std::uint16_t>& memory, std::int64_t rows, std::int64_t heads) {
            return Tensor(memory.data(), DType::fp16, {1, rows, heads, 16}, kEmulator);
        };
        Attention op;
        op.q = tensor(q, queries.back(), 2), op.out = tensor(out, queries.back(), 2);
        op.k = tensor(k, keys.back(), 1), op.v = tensor(v, keys.back(), 1);
        const auto count = static_cast<std::int64_t>(queries.size());
        op.cu_seqlens_q = Tensor(queries.data(), DType::int32, {count}, kEmulator);
        op.cu_seqlens_k = Tensor(keys.data(), DType::int32, {count}, kEmulator);
        op.causal = true;
        return op;
    }
    void expect_seen() {
        for (const char* implementation : {"flash_mma", "flash_wgmma"}) {
            SCOPED_TRACE(implementation);
            Context context = context_for(*find_op("attention"), kEmulator, implementation);
            expect_seen_by(context);
        }
    }
    void expect_seen_by(Context& context) {
        std::ranges::fill(out, kNaN);
        run(call(), context);
        for (std::size_t s = 0; s + 1 < queries.size(); ++s) {
            const int own = queries[s + 1] - queries[s], n = keys[s + 1] - keys[s];
            for (int i = 0; i < own; ++i) {
                const int seen = std::max(0, i + n - own + 1);
                const double mean = seen == 0 ? 0 : keys[s] + 1 + (seen - 1) / 2.0;
                for (std::size_t h = 0; h < 2; ++h) {
                    const std::uint16_t got = out[(static_cast<std::size_t>(queries[s] + i) * 2 + h) * 16];
                    ASSERT_NEAR(decode(DType::fp16, got), mean, mean * 0x1p-9) << s << " " << i;
                }
            }
        }
    }
};

TEST(AttentionPlaces, SequencesSeeTheirOwnKeys) {
    Packed({0, 5}, {0, 9}).expect_seen();
    Packed({0, 1, 4, 70, 71}, {0, 9, 12, 80, 200}).expect_seen();
    Packed({0, 0, 0, 3, 3, 40, 40}, {0, 7, 7, 7, 20, 90, 100}).expect_seen();  // without queries, or keys
    Packed({0, 16, 32, 48, 64, 80}, {0, 16, 32, 48, 64, 80}).expect_seen();    // whole blocks of rows
    Packed({0, 15, 32, 49, 64, 96}, {0, 1, 66, 67, 131, 132}).expect_seen();
}

// A warp looks at 32 at a time: some more, and more than 32 times as many.
TEST(AttentionPlaces, ABlockFindsItsSequenceAmongMany) {
    for (const int count : {31, 32, 33, 65, 1024, 1025, 1100}) {
        std::vector<std::int32_t> queries{0}, keys{0};
        for (int s = 0; s < count; ++s) {
            queries.push_back(queries.back() + s % 3 * (s % 7 == 0 ? 9 : 1));
            keys.push_back(keys.back() + (count < 100 || s > count - 9 ? 1 + s % 5 : 0));
        }
        Packed(queries, keys).expect_seen();
    }
}

// Runs both kernels with offsets for the queries, the keys, or both.
void run_with(const std::vector<std::int32_t>& offsets, bool for_queries) {
    Packed s({0, 20, 40, 70}, {0, 20, 40, 70});
    Attention op = s.call();
    std::vector<std::int32_t> given = offsets, reversed(offsets.rbegin(), offsets.rend());
    for (const char* implementation : {"flash_mma", "flash_wgmma"}) {
        Context context = context_for(*find_op("attention"), kEmulator, implementation);
        op.cu_seqlens_q.data = s.queries.data(), op.cu_seqlens_k.data = reversed.data();
        run(op, context);
        if (!for_queries) continue;
        op.cu_seqlens_q.data = given.data();
        run(op, context);
        op.cu_seqlens_k.data = s.keys.data();
        run(op, context);
    }
}

// Nothing that offsets may be makes a kernel leave its tensors: the emulator and the sanitizers watch.
TEST(AttentionPlaces, OffsetsThatBreakTheRuleStayInside) {
    const std::int32_t most = std::numeric_limits<std::int32_t>::max(), least = -most - 1;
    const std::vector<std::int32_t> apart[] = {
        {most, most, 0, 70}, {least, 0, least, 70}, {70, 0, 70, 70}, {0, 1, 1, 1}, {least, least, 5, 70}};
    for (const auto& offsets : apart) run_with(offsets, true);
    // Sequences that share queries write the same rows, a race that the offsets ask for.
    const std::vector<std::int32_t> shared[] = {{3, 70, 9, 70}, {-5, 90, 10, 70}, {0, most, 1, 70}};
    for (const auto& offsets : shared) run_with(offsets, !test::kSeesRaces);
}

// What a sequence does not have is its neighbour's, which Hopper's copies bring along.
TEST(AttentionPlaces, NeighboursThatAreNoNumbersSpoilNoSequence) {
    for (const char* implementation : {"flash_mma", "flash_wgmma"}) {
        Packed s({0, 30, 60, 90}, {0, 50, 77, 90});
        for (std::size_t i = 0; i < 2 * 16; ++i) s.q[30 * 2 * 16 + i] = s.q[59 * 2 * 16 + i] = kNaN;
        for (std::size_t i = 0; i < 16; ++i) {
            for (const std::size_t key : {50, 76}) s.k[key * 16 + i] = s.v[key * 16 + i] = kNaN;
        }
        Attention op = s.call();
        op.causal = false;
        Context context = context_for(*find_op("attention"), kEmulator, implementation);
        run(op, context);
        for (std::size_t i = 0; i < s.out.size(); ++i) {
            const std::size_t token = i / 32;
            EXPECT_EQ(std::isnan(decode(DType::fp16, s.out[i])), token >= 30 && token < 60) << token;
        }
    }
}

TEST(AttentionPlaces, PackedSequencesOnWgmma) {
    const char* lines[] = {
        "attention q=bf16[1,700,4,64] k=bf16[1,700,2,64] v=bf16[1,700,2,64] cu_seqlens_q=int32[6] "
        "cu_seqlens_k=int32[6] lse=fp32[1,4,700] causal=true",
        "attention q=fp16[1,300,3,72] k=fp16[1,600,1,72] v=fp16[1,600,1,72] cu_seqlens_q=int32[40] "
        "cu_seqlens_k=int32[40]",
        "attention q=bf16[1,300,2,128] k=bf16[1,500,2,128] v=bf16[1,500,2,128] cu_seqlens_q=int32[4] "
        "cu_seqlens_k=int32[4] kv_lengths=int32[3] lse=fp32[1,2,300]",
        "attention q=bf16[1,300,4,200] k=bf16[1,300,1,200] v=bf16[1,300,1,200] cu_seqlens_q=int32[4] "
        "causal=true"};
    for (const char* line : lines) {
        test::expect_right(line, "flash_wgmma", "1 blocks share the keys");
        Case c = Case::parse(line);
        c.infer();
        for (const int sms : {1, 3}) {  // blocks go on with other sequences
            DeviceInfo info = *find_device("h200");
            info.type = DeviceType::emulator, info.sms = sms;
            Context context = context_for(c.op(), kEmulator, "flash_wgmma");
            context.set_info(info);
            const Outcome outcome = verify(c, context, 7, Values::special);
            EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
        }
    }
    const Outcome split = test::verify_as(
        "attention q=bf16[1,4,8,64] k=bf16[1,3000,1,64] v=bf16[1,3000,1,64] cu_seqlens_q=int32[3] "
        "cu_seqlens_k=int32[3] lse=fp32[1,8,4]",
        "h200");
    EXPECT_TRUE(split.passed) << split.why;
    EXPECT_THAT(split.implementation, testing::AllOf(HasSubstr("flash_wgmma"), HasSubstr(" splits")));

    // Splits of a sequence that has no keys.
    DeviceInfo h200 = *find_device("h200");
    h200.type = DeviceType::emulator;
    for (const char* implementation : {"flash_mma", "flash_wgmma"}) {
        Packed s({0, 2, 4}, {0, 2000, 2000});
        Context context = context_for(*find_op("attention"), kEmulator, implementation);
        context.set_info(h200);
        s.expect_seen_by(context);
    }
}

TEST(AttentionPlaces, PackedSequencesWithEveryOption) {
    const char* lines[] = {
        "attention q=bf16[1,150,6,128] k=bf16[1,300,2,128] v=bf16[1,300,2,128] cu_seqlens_q=int32[5] "
        "cu_seqlens_k=int32[5] kv_lengths=int32[4] lse=fp32[1,6,150] sinks=fp32[6] causal=true "
        "window_left=40",
        "attention q=fp16[1,150,2,80] k=fp16[1,300,2,80] v=fp16[1,300,2,80] cu_seqlens_q=int32[5] "
        "cu_seqlens_k=int32[5] key_limits=int32[1,150] softcap=5 window_right=9",
        "attention q=bf16[1,150,3,200] k=bf16[30,16,1,200] v=bf16[30,16,1,200] cu_seqlens_q=int32[8] "
        "kv_lengths=int32[7] block_table=int32[7,9] lse=fp32[1,3,150] causal=true",
        "attention q=bf16[1,30,2,64] k=bf16[1,200,1,64] v=bf16[1,200,1,64] cu_seqlens_q=int32[5] "
        "lse=fp32[1,2,30]"};
    for (const char* line : lines) {
        expect_mma_right(line, "h200", "flash_mma");
        expect_mma_right(line, "a100", "flash_mma", Values::special, 3);
    }
}
#endif

}  // namespace
}  // namespace weft
