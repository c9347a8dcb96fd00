// attention: what generated cases don't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/attention/policy.h"
#include "ops/attention/test_config.h"
#include "tests/ops/support.h"
#include "weft/case.h"
#include "weft/roofline.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

TEST(Attention, RejectsWhatTheContractExcludes) {
    EXPECT_THAT(test::open_rejection("attention k=bf16[1,9,2,8] v=bf16[1,9,2,8] out=bf16[1,4,4,8]"),
                HasSubstr("attention.q: is required"));
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[1,4,4,8] k=bf16[1,9,2,16] v=bf16[1,9,2,16]"),
        HasSubstr("attention.k: expected [batch=1, kv_tokens=9, kv_heads=2, head_dim=8], got [1, 9, 2, 16]"));
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[1,4,3,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8] out=bf16[1,4,3,8]"),
        HasSubstr("attention.q: expected q_heads to be a multiple of kv_heads=2, got 3"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,4,4,8] k=fp16[1,9,2,8] v=bf16[1,9,2,8]"),
                HasSubstr("attention.k: expected dtype bf16, fp8_e4m3, fp8_e5m2 beside q of bf16, got fp16"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,4,4,8] k=bf16[1,9,2,8] v=fp32[1,9,2,8]"),
                HasSubstr("attention.v: expected k's dtype bf16, got fp32"));
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[1,4,4,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8] out=fp32[1,4,4,8]"),
        HasSubstr("attention.out: expected dtype bf16 beside q of bf16, got fp32"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,4,4,1025] k=bf16[1,9,2,1025] v=bf16[1,9,2,8]"),
                HasSubstr("attention.q: expected head_dim in [1, 1024], got 1025"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,4,4,0] k=bf16[1,9,2,0] v=bf16[1,9,2,0]"),
                HasSubstr("attention.q: expected head_dim in [1, 1024], got 0"));
    EXPECT_EQ(test::open_rejection("attention q=bf16[1,4,4,1] k=bf16[1,9,2,1] v=bf16[1,9,2,1]"), "accepted");
    EXPECT_EQ(
        test::open_rejection("attention q=bf16[1,4,0,8] k=bf16[1,9,0,8] v=bf16[1,9,0,8] out=bf16[1,4,0,8]"),
        "accepted");
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[1,4,1,8] k=bf16[1,9,0,8] v=bf16[1,9,0,8] out=bf16[1,4,1,8]"),
        HasSubstr("attention.q: expected q_heads to be a multiple of kv_heads=0, got 1"));
    EXPECT_THAT(test::open_rejection("attention q=int8[1,4,4,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8]"),
                HasSubstr("attention.q: expected dtype fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, got int8"));
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[1,4,4,8]{256,64,16,2} k=bf16[1,9,2,8] v=bf16[1,9,2,8]"),
        HasSubstr("attention.q: the last axis must be contiguous"));
    EXPECT_THAT(
        test::open_rejection("attention q=bf16[1,4,4,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8] kv_lengths=int64[1]"),
        HasSubstr("attention.kv_lengths: expected dtype int32, got int64"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,4,4,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8] scale=-1"),
                HasSubstr("expected a value in [0, 1000000]"));
    EXPECT_THAT(test::open_rejection("attention q=bf16[1,4,4,8] k=bf16[1,9,2,8] v=bf16[1,9,2,8] scale=1e-40"),
                HasSubstr("attention.scale: expected 0 or a normal number"));
}

Work work(const std::string& line) {
    Work found;
    const Case c = Case::parse("attention " + line);
    c.with_call(kCpu, [&](const void* call) { found = Attention::contract().work(call); });
    return found;
}

// Two products of head_dim multiplications and additions a pair of a query and a key that it sees.
TEST(Attention, CountsItsWork) {
    const std::string fewer = "q=bf16[2,5,4,8] k=bf16[2,9,2,8] v=bf16[2,9,2,8]",
                      more = "q=bf16[2,9,4,8] k=bf16[2,5,2,8] v=bf16[2,5,2,8]";
    constexpr double kPair = 2 * 4 * (2 * 2 * 8);  // batches, query heads
    EXPECT_EQ(work(fewer).flops, 5 * 9 * kPair);
    EXPECT_EQ(work(fewer + " causal=true").flops, (5 + 6 + 7 + 8 + 9) * kPair);
    EXPECT_EQ(work(more).flops, 9 * 5 * kPair);
    EXPECT_EQ(work(more + " causal=true").flops, (1 + 2 + 3 + 4 + 5) * kPair) << "four queries see nothing";
    constexpr double kElements = 2 * (5 * 4 + 9 * 2 + 9 * 2 + 5 * 4) * 8;  // q, k, v, out
    EXPECT_EQ(work(fewer).bytes, 2 * kElements);
    EXPECT_EQ(work(fewer + " lse=fp32[2,4,5]").bytes, 2 * kElements + 4 * (2 * 4 * 5));
    EXPECT_EQ(work(fewer).math, DType::bf16);
}

TEST(Attention, ItsFloorIsThatOfItsWork) {
    const DeviceInfo& h200 = *find_device("h200");
    const Work prefill = work("q=bf16[1,4096,16,128] k=bf16[1,4096,16,128] v=bf16[1,4096,16,128]"),
               decode = work("q=bf16[1,1,16,128] k=bf16[1,65536,16,128] v=bf16[1,65536,16,128]");
    EXPECT_DOUBLE_EQ(floor_us(prefill, h200), 4.0 * 16 * 4096 * 4096 * 128 / (h200.half_tflops * 1e6));
    EXPECT_DOUBLE_EQ(floor_us(decode, h200), 2 * 2.0 * 16 * 128 * (65536 + 1) / (h200.read_tbps * 1e6));
}

TEST(Attention, RejectsOverlapNullAndStrangerDevices) {
    std::vector<std::uint16_t> memory(1024);
    Attention op;
    op.q = Tensor(memory.data(), DType::bf16, {1, 4, 4, 8});
    op.k = op.v = Tensor(memory.data() + 256, DType::bf16, {1, 9, 2, 8});
    op.out = Tensor(memory.data() + 64, DType::bf16, {1, 4, 4, 8});
    const auto message = [&] {
        try {
            run(op);
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    EXPECT_THAT(message(), HasSubstr("attention.out: must not overlap q"));
    op.scale = -1;
    EXPECT_THAT(message(), HasSubstr("attention.scale: expected a value in [0, 1000000"));
    op.scale = 0;
    op.out = Tensor(nullptr, DType::bf16, {1, 4, 4, 8});
    EXPECT_THAT(message(), HasSubstr("attention.out: is a null pointer"));
    op.out = Tensor(memory.data() + 512, DType::bf16, {1, 4, 4, 8}, kEmulator);
    EXPECT_THAT(message(), HasSubstr("attention.out: expected device cpu:0 as q"));
    op.out = Tensor(reinterpret_cast<char*>(memory.data() + 512) + 1, DType::bf16, {1, 4, 4, 8});
    EXPECT_THAT(message(), HasSubstr("attention.out: must be aligned"));
}

TEST(Attention, SaysWhyAKernelDeclines) {
    const Case c = [] {
        Case parsed = Case::parse("attention q=fp32[1,4,4,8] k=fp32[1,9,2,8] v=fp32[1,9,2,8]");
        parsed.infer();
        return parsed;
    }();
    c.with_call(kCuda, [](const void* call) {
        EXPECT_THAT(attention::decline(*static_cast<const Attention*>(call), *find_device("h100")),
                    HasSubstr("bf16, fp16 and fp8"));
    });
    std::uint16_t element = 0;
    Attention half;
    half.q = Tensor(&element, DType::bf16, {1, 1, 1, 1});
    half.k = half.v = half.q;
    EXPECT_THAT(attention::decline(half, *find_device("t4")), HasSubstr("SM 8.0"));
    EXPECT_EQ(attention::decline(half, *find_device("a100")), nullptr);
}

// --- policy, without a GPU
// -----------------------------------------------------------------------------------------

struct Shape {
    const char* name;
    std::int64_t batch, queries, keys, q_heads, kv_heads, dim;
    attention::Problem problem() const {
        attention::Problem p;
        p.heads = batch * kv_heads, p.rows = queries * (q_heads / kv_heads), p.keys = keys, p.head_dim = dim;
        return p;
    }
};
constexpr Shape kShapes[] = {
    {"pi05-enc-968", 1, 968, 968, 8, 1, 256},
    {"pi05-enc-560", 1, 560, 560, 8, 1, 256},
    {"pi05-exp-968", 1, 10, 978, 8, 1, 256},
    {"siglip-1v", 1, 256, 256, 16, 16, 72},
    {"siglip-3v", 3, 256, 256, 16, 16, 72},
    {"groot-qwen3", 1, 178, 178, 16, 8, 128},
    {"groot-dit-cross", 1, 51, 178, 32, 32, 48},
    {"flux1", 1, 4608, 4608, 24, 24, 128},
    {"wan1.3b", 1, 32760, 32760, 12, 12, 128},
    {"vit-d80", 1, 8836, 8836, 16, 16, 80},
    {"fa-d64-s512", 32, 512, 512, 32, 32, 64},
    {"fa-d256-s16384", 1, 16384, 16384, 8, 8, 256},
    {"llama8b-dec-b1-8192", 1, 1, 8192, 32, 8, 128},
    {"llama8b-dec-b128", 128, 1, 1024, 32, 8, 128},
    {"llama8b-chunk", 1, 256, 8192, 32, 8, 128},
    {"spec-q8", 1, 8, 8192, 64, 8, 128},
    {"one key", 1, 1, 1, 1, 1, 1},
    {"no key", 1, 5, 0, 1, 1, 16},
};

TEST(AttentionPolicy, FitsEveryDeviceThatItAccepts) {
    for (const std::string& name : device_names()) {
        const DeviceInfo& device = *find_device(name);
        if (device.arch < 80) continue;  // no op takes a call there
        for (const Shape& shape : kShapes) {
            const attention::Config c = attention::choose(shape.problem(), device);
            SCOPED_TRACE(name + " " + shape.name + ": " + attention::to_string(c));
            EXPECT_LE(c.shared_bytes(), device.shared_per_block);
            EXPECT_GE(c.tile.head_dim, shape.dim);
            EXPECT_LE(c.threads(), 32 * attention::kMaxWarps);
            EXPECT_LE(c.splits, attention::kMaxSplits);
            EXPECT_GE(c.slots, 2);
            EXPECT_TRUE(c.groups == 1 || c.slots == c.tile.slots())
                << "a group's result needs its whole ring";
            EXPECT_LE((c.splits * c.groups - 1) * attention::kKeys, std::max<std::int64_t>(0, shape.keys - 1))
                << "someone has no keys";
        }
    }
}

TEST(AttentionPolicy, FillsAHopperCard) {
    const DeviceInfo& h200 = *find_device("h200");
    const auto chosen = [&](int i) { return attention::choose(kShapes[i].problem(), h200); };
    const auto tiles = [&](int i) { return attention::blocks(kShapes[i].problem(), chosen(i)); };
    EXPECT_EQ(tiles(0), 121) << "pi05-enc-968: 64 rows a block, one wave";
    EXPECT_EQ(chosen(0).groups, 2) << "two warps a scheduler";
    EXPECT_GT(chosen(2).splits, 4) << "80 rows alone leave the card idle";
    EXPECT_GT(chosen(12).splits, 4) << "decoding one sequence reads the cache from many blocks";
    EXPECT_EQ(chosen(13).splits, 1) << "1024 blocks need no splitting";
    EXPECT_EQ(chosen(7).splits, 1);
    EXPECT_EQ(chosen(7).rows(), 128);
}

// --- identities, on every device of this build
// ---------------------------------------------------------------------

std::vector<Device> devices() {
#if WEFT_HAS_EMULATOR
    return {kCpu, kEmulator};
#else
    return {kCpu};
#endif
}

// One batch, one head, bf16 unless it says fp32; host memory serves the emulator too.
struct Small {
    std::int64_t queries, keys, dim;
    std::vector<std::uint16_t> q, k, v, out;
    std::vector<float> lse;
    Small(std::int64_t queries, std::int64_t keys, std::int64_t dim)
        : queries(queries),
          keys(keys),
          dim(dim),
          q(static_cast<std::size_t>(queries * dim)),
          k(static_cast<std::size_t>(keys * dim)),
          v(k.size()),
          out(q.size(), 0xffff),
          lse(static_cast<std::size_t>(queries), -1.0f) {
        for (std::size_t i = 0; i < q.size(); ++i) q[i] = bf16(std::sin(0.7 * static_cast<double>(i)));
        for (std::size_t i = 0; i < k.size(); ++i) k[i] = bf16(std::cos(1.3 * static_cast<double>(i)));
        for (std::size_t i = 0; i < v.size(); ++i) v[i] = bf16(0.5);
    }
    static std::uint16_t bf16(double value) { return static_cast<std::uint16_t>(encode(DType::bf16, value)); }
    double at(std::int64_t row, std::int64_t column) const {
        return decode(DType::bf16, out[static_cast<std::size_t>(row * dim + column)]);
    }
    Attention call(Device device) {
        Attention op;
        op.q = Tensor(q.data(), DType::bf16, {1, queries, 1, dim}, device);
        op.k = Tensor(k.data(), DType::bf16, {1, keys, 1, dim}, device);
        op.v = Tensor(v.data(), DType::bf16, {1, keys, 1, dim}, device);
        op.out = Tensor(out.data(), DType::bf16, {1, queries, 1, dim}, device);
        op.lse = Tensor(lse.data(), DType::fp32, {1, 1, queries}, device);
        return op;
    }
};

TEST(Attention, ConstantValuesComeBack) {
    for (const Device device : devices()) {
        Small s(5, 90, 40);
        run(s.call(device));
        for (std::int64_t i = 0; i < 5; ++i) EXPECT_NEAR(s.at(i, i * 7), 0.5, 0x1p-8);
    }
}

TEST(Attention, RowsWithoutKeysAreZero) {
    for (const Device device : devices()) {
        Small s(5, 3, 16);  // causal, bottom-right: the first two of five queries stand before the first key
        Attention op = s.call(device);
        op.causal = true;
        run(op);
        for (std::int64_t i = 0; i < 5; ++i) {
            EXPECT_NEAR(s.at(i, 3), i < 2 ? 0.0 : 0.5, 0x1p-8);
            EXPECT_EQ(std::isinf(s.lse[static_cast<std::size_t>(i)]), i < 2);
        }
        EXPECT_EQ(s.lse[0], -std::numeric_limits<float>::infinity());
    }
}

// By every implementation, in both ways to load: 16 columns are whole chunks, 9 are not, and 72 are two boxes of Hopper's
// kernel.
TEST(Attention, HiddenKeysAreNotRead) {
    for (const test::Place& place : test::places()) {
        for (const std::int64_t dim : {16, 9, 72}) {
            for (const bool by_length : {true, false}) {
                Small s(4, 80, dim);
                std::vector<std::uint8_t> mask(80, 1);
                std::int32_t length = 70;
                for (std::size_t j = 0; j < 80; ++j) {
                    if (by_length ? j < 70 : j % 7 != 0 && j != 64) continue;
                    mask[j] = 0;
                    for (std::size_t d = 0; d < static_cast<std::size_t>(dim); ++d)
                        s.k[j * static_cast<std::size_t>(dim) + d] =
                            s.v[j * static_cast<std::size_t>(dim) + d] = 0x7fc0;  // NaN
                }
                Attention op = s.call(place.device);
                if (by_length) {
                    op.kv_lengths = Tensor(&length, DType::int32, {1}, place.device);
                } else {
                    op.key_mask = Tensor(mask.data(), DType::uint8, {1, 80}, place.device);
                }
                Context context = place.context();
                const bool boxes =
                    place.implementation == "flash_decode" || place.implementation == "flash_wgmma";
                if (boxes && dim % 8 != 0) continue;  // it declines
                run(op, context);
                for (std::int64_t i = 0; i < 4; ++i) {
                    for (std::int64_t d = 0; d < dim; ++d)
                        ASSERT_NEAR(s.at(i, d), 0.5, 0x1p-8)
                            << place.implementation << by_length << " " << i << " " << d;
                }
            }
        }
    }
}

// What lies beyond the columns of a head is nothing, and not those of the first one.
TEST(Attention, OneQueryThatIsNoNumberSpoilsNoOther) {
    for (const test::Place& place : test::places()) {
        Small s(4, 80, 40);
        s.q[1] = 0x7fc0;  // NaN
        Context context = place.context();
        run(s.call(place.device), context);
        for (std::int64_t i = 0; i < 4; ++i)
            EXPECT_EQ(std::isnan(s.at(i, 3)), i == 0) << place.implementation << i;
    }
}

// Nor are a key's, where one of its own takes it out of the softmax.
TEST(Attention, AKeyOfMinusInfinityHasNoWeight) {
    for (const test::Place& place : test::places()) {
        Small s(4, 80, 40);
        for (std::size_t i = 0; i < 4; ++i) s.q[i * 40] = Small::bf16(1);
        s.k[0] = s.k[64 * 40] = Small::bf16(-std::numeric_limits<double>::infinity());
        s.v[3] = s.v[64 * 40 + 3] = Small::bf16(100);
        Context context = place.context();
        run(s.call(place.device), context);
        for (std::int64_t i = 0; i < 4; ++i)
            EXPECT_NEAR(s.at(i, 3), 0.5, 0x1p-8) << place.implementation << i;
    }
}

TEST(Attention, NanIsNotHidden) {
    for (const Device device : devices()) {
        Small s(4, 80, 16);
        s.v[77 * 16 + 3] = 0x7fc0;
        s.q[2 * 16 + 1] = 0x7fc0;
        run(s.call(device));
        EXPECT_TRUE(std::isnan(s.at(0, 3)));
        EXPECT_FALSE(std::isnan(s.at(0, 4)));
        EXPECT_TRUE(std::isnan(s.at(2, 4)));
        EXPECT_TRUE(std::isnan(s.lse[2]));
    }
}

}  // namespace
}  // namespace weft
