// attention of packed sequences, one behind the other in one batch.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/policy.h"
#include "ops/attention/test_config.h"
#include "tests/ops/emulated.h"
#include "tests/ops/support.h"
#include "weft/case.h"
#include "weft/context.h"

#if WEFT_HAS_EMULATOR
namespace weft {
namespace {

using test::expect_mma_right;
using ::testing::HasSubstr;

constexpr std::uint16_t kNaN = 0x7fc0;

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
        for (const char* implementation : {"flash_mma", "flash_wgmma", "flash_decode"}) {
            SCOPED_TRACE(implementation);
            Context context = test::context_of(kEmulator, implementation);
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

TEST(AttentionSequences, SequencesSeeTheirOwnKeys) {
    Packed({0, 5}, {0, 9}).expect_seen();
    Packed({0, 1, 4, 70, 71}, {0, 9, 12, 80, 200}).expect_seen();
    Packed({0, 0, 0, 3, 3, 40, 40}, {0, 7, 7, 7, 20, 90, 100}).expect_seen();  // without queries, or keys
    Packed({0, 16, 32, 48, 64, 80}, {0, 16, 32, 48, 64, 80}).expect_seen();    // whole blocks of rows
    Packed({0, 15, 32, 49, 64, 96}, {0, 1, 66, 67, 131, 132}).expect_seen();
}

// A warp looks at 32 at a time: some more, and more than 32 times as many.
TEST(AttentionSequences, ABlockFindsItsSequenceAmongMany) {
    for (const int count : {31, 32, 33, 65, 1024, 1025, 1100}) {
        std::vector<std::int32_t> queries{0}, keys{0};
        for (int s = 0; s < count; ++s) {
            const bool last = count < 100 || s > count - 9;
            queries.push_back(queries.back() + (last || s % 16 == 0 ? s % 3 * (s % 7 == 0 ? 9 : 1) : 0));
            keys.push_back(keys.back() + (last ? 1 + s % 5 : 0));
        }
        Packed(queries, keys).expect_seen();
    }
}

// Runs both kernels with offsets for the queries, the keys, or both.
void run_with(const std::vector<std::int32_t>& offsets, bool for_queries) {
    Packed s({0, 20, 40, 70}, {0, 20, 40, 70});
    Attention op = s.call();
    std::vector<std::int32_t> given = offsets, reversed(offsets.rbegin(), offsets.rend());
    for (const char* implementation : {"flash_mma", "flash_wgmma", "flash_decode"}) {
        Context context = test::context_of(kEmulator, implementation);
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
TEST(AttentionSequences, OffsetsThatBreakTheRuleStayInside) {
    const std::int32_t most = std::numeric_limits<std::int32_t>::max(), least = -most - 1;
    const std::vector<std::int32_t> apart[] = {
        {most, most, 0, 70}, {least, 0, least, 70}, {70, 0, 70, 70}, {0, 1, 1, 1}, {least, least, 5, 70}};
    for (const auto& offsets : apart) run_with(offsets, true);
    // Sequences that share queries write the same rows, a race that the offsets ask for.
    const std::vector<std::int32_t> shared[] = {{3, 70, 9, 70}, {-5, 90, 10, 70}, {0, most, 1, 70}};
    for (const auto& offsets : shared) run_with(offsets, !kSeesRaces);
}

// What a sequence does not have is its neighbour's, which Hopper's copies bring along.
TEST(AttentionSequences, NeighboursThatAreNoNumbersSpoilNoSequence) {
    for (const char* implementation : {"flash_mma", "flash_wgmma", "flash_decode"}) {
        Packed s({0, 30, 60, 90}, {0, 50, 77, 90});
        for (std::size_t i = 0; i < 2 * 16; ++i) s.q[30 * 2 * 16 + i] = s.q[59 * 2 * 16 + i] = kNaN;
        for (std::size_t i = 0; i < 16; ++i) {
            for (const std::size_t key : {50, 76}) s.k[key * 16 + i] = s.v[key * 16 + i] = kNaN;
        }
        Attention op = s.call();
        op.causal = false;
        Context context = test::context_of(kEmulator, implementation);
        run(op, context);
        for (std::size_t i = 0; i < s.out.size(); ++i) {
            const std::size_t token = i / 32;
            EXPECT_EQ(std::isnan(decode(DType::fp16, s.out[i])), token >= 30 && token < 60) << token;
        }
    }
}

TEST(AttentionSequences, PackedSequencesOnWgmma) {
    const char* lines[] = {
        "attention q=bf16[1,500,2,64] k=bf16[1,500,1,64] v=bf16[1,500,1,64] cu_seqlens_q=int32[6] "
        "cu_seqlens_k=int32[6] lse=fp32[1,2,500] causal=true",
        "attention q=fp16[1,300,3,72] k=fp16[1,600,1,72] v=fp16[1,600,1,72] cu_seqlens_q=int32[40] "
        "cu_seqlens_k=int32[40]",
        "attention q=bf16[1,300,2,128] k=bf16[1,500,2,128] v=bf16[1,500,2,128] cu_seqlens_q=int32[4] "
        "cu_seqlens_k=int32[4] kv_lengths=int32[3] lse=fp32[1,2,300]",
        "attention q=bf16[1,300,4,200] k=bf16[1,300,1,200] v=bf16[1,300,1,200] cu_seqlens_q=int32[4] "
        "causal=true"};
    for (const char* line : lines) {
        test::expect_right(line, "flash_wgmma", "1 blocks share the keys");
        test::expect_right_on_few(line);
    }
    const Outcome split = test::verify_as(
        "attention q=bf16[1,4,8,64] k=bf16[1,3000,1,64] v=bf16[1,3000,1,64] cu_seqlens_q=int32[3] "
        "cu_seqlens_k=int32[3] lse=fp32[1,8,4]",
        "h200", "flash_wgmma");
    EXPECT_TRUE(split.passed) << split.why;
    EXPECT_THAT(split.implementation, testing::AllOf(HasSubstr("flash_wgmma"), HasSubstr(" splits")));

    // Splits of a sequence that has no keys.
    DeviceInfo h200 = *find_device("h200");
    h200.type = DeviceType::emulator;
    for (const char* implementation : {"flash_mma", "flash_wgmma", "flash_decode"}) {
        Packed s({0, 2, 4}, {0, 2000, 2000});
        Context context = test::context_of(kEmulator, implementation);
        context.set_info(h200);
        s.expect_seen_by(context);
    }
}

TEST(AttentionSequences, PackedSequencesWithEveryOption) {
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
}  // namespace
}  // namespace weft
#endif
