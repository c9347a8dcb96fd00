// qk_norm_rope: what generated cases don't say.
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cmath>

#include "ops/qk_norm_rope/qk_norm_rope.h"
#ifdef WEFT_HAS_EMULATOR
#include "tests/ops/emulated.h"
#endif
#include "tests/ops/support.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

HostTensor waves(std::vector<std::int64_t> shape, double step) {
    HostTensor t(DType::fp32, shape);
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    for (std::int64_t i = 0; i < count; ++i) t.set(i, std::sin(step * static_cast<double>(i * i + 1)));
    return t;
}

TEST(QkNormRope, RejectsWhatTheContractExcludes) {
    const std::string q = "qk_norm_rope q=bf16[4,8,64] q_out=bf16[4,8,64]";
    const std::string both = q + " k=bf16[4,2,64]";
    const std::string cached = both + " slots=int64[4] k_cache=fp8_e4m3[2,16,2,64]";
    EXPECT_EQ(rejection(q), "accepted");
    EXPECT_EQ(rejection(cached), "accepted");
    EXPECT_THAT(rejection(both), HasSubstr("qk_norm_rope.k: expected k_out or k_cache beside it"));
    EXPECT_THAT(rejection(both + " k_out=fp16[4,2,64]"), HasSubstr("expected q's dtype bf16, got fp16"));
    EXPECT_THAT(rejection(both + " k_out=bf16[4,2,64] v=bf16[4,2,64]"),
                HasSubstr("qk_norm_rope.v: expected v_out or v_cache beside it"));
    EXPECT_THAT(rejection(q + " v=bf16[4,2,64]"), HasSubstr("expected k beside it"));
    EXPECT_THAT(rejection(both + " k_cache=bf16[2,16,2,64]"), HasSubstr("expected slots beside it"));
    EXPECT_THAT(rejection(q + " slots=int64[4]"),
                HasSubstr("qk_norm_rope.slots: expected k_cache or v_cache"));
    EXPECT_THAT(rejection(both + " slots=int64[4] k_cache=fp16[2,16,2,64]"),
                HasSubstr("qk_norm_rope.k_cache"));
    EXPECT_THAT(rejection(both + " slots=int64[4] k_cache=bf16[2,16,2,64] k_scale=fp32[1]"),
                HasSubstr("qk_norm_rope.k_scale"));
    EXPECT_THAT(rejection(cached + " k_scale=fp32[3]"),
                HasSubstr("qk_norm_rope.k_scale: expected [1] or [kv_heads=2], got [3]"));
    EXPECT_THAT(rejection(q + " q_weight=bf16[128]"),
                HasSubstr("expected a weight of one head, [64], or of all, [512], got [128]"));
    EXPECT_THAT(rejection(q + " q_weight=bf16[64] norm=none"), HasSubstr("expected none with norm=none"));
    EXPECT_THAT(rejection(q + " weight_offset=1"), HasSubstr("expected 0 where there is no weight"));
    EXPECT_THAT(rejection(q + " rotary_dim=63"), HasSubstr("expected an even number up to head_dim=64"));
    EXPECT_THAT(rejection(q + " frequencies=fp32[16]"),
                HasSubstr("expected [half=32] for rotary_dim=64, got [16]"));
    EXPECT_THAT(rejection(q + " cos=fp32[9,32] sin=fp32[9,32] start=6"),
                HasSubstr("expected at most table - tokens + prefix = 5 without positions, got 6"));
    EXPECT_EQ(rejection(q + " cos=fp32[9,32] sin=fp32[9,32] start=6 prefix=1"), "accepted");
    EXPECT_THAT(rejection(q + " cos=fp32[9,32] sin=fp32[9,32] start=9 prefix=3"),
                HasSubstr("expected at most table - tokens + prefix = 8 without positions, got 9"));
    EXPECT_THAT(rejection(q + " section2=4"), HasSubstr("expected 0 without its positions, got 4"));
    const std::string axes = q + " positions=int32[4] positions2=int32[4] positions3=int32[4]";
    EXPECT_THAT(rejection(axes + " section2=20 section3=13"),
                HasSubstr("expected section2 + section3 up to the 32 pairs, got 33"));
    EXPECT_THAT(rejection(axes + " section2=12 section3=4 sections=alternate"),
                HasSubstr("at most a third of the 32 pairs"));
    EXPECT_THAT(rejection(axes + " rotary_dim=62 section2=11 section3=1 sections=alternate"),
                HasSubstr("at most a third of the 31 pairs"));
    EXPECT_THAT(rejection(q + " head_cos=fp32[4,8,16] head_sin=fp32[4,8,16]"),
                HasSubstr("expected half=32 for rotary_dim=64, got 16"));
    EXPECT_THAT(rejection(both + " k_out=bf16[4,2,64] head_cos=fp32[4,8,32] head_sin=fp32[4,8,32]"),
                HasSubstr("expected as many heads of k as of q, 8, got 2"));
    EXPECT_THAT(rejection("qk_norm_rope q=bf16[4,1,514] q_out=bf16[4,1,514]"),
                HasSubstr("expected at most 512 without frequencies or tables, got 514"));
    EXPECT_THAT(rejection("qk_norm_rope q=bf16[2,3,4,8,64]{10000,3000,512,64,1} q_out=bf16[2,3,4,8,64]"),
                HasSubstr("qk_norm_rope.q: the axes before the tokens must fold into one stride"));
}

// Numbers on which the roundings of the rotation's products show (those of rope's test): no mode passes for the other.
TEST(QkNormRope, RoundsOnceOrAfterEachStep) {
    HostTensor q(DType::bf16, {16, 1, 128}), weight(DType::bf16, {128}), cos(DType::bf16, {16, 64}),
        sin(DType::bf16, {16, 64});
    for (int i = 0; i < 16 * 128; ++i) q.set(i, 1);
    for (int i = 0; i < 128; ++i) weight.set(i, 1.0078125);
    for (int i = 0; i < 16 * 64; ++i) cos.set(i, 1.0078125), sin.set(i, 1.03125);
    for (const Device device : test::host_devices()) {
        for (const auto norm : {QkNormRope::Norm::head, QkNormRope::Norm::row}) {
            for (const auto rounding : {Rounding::fused, Rounding::eager, Rounding::eager_cast}) {
                HostTensor out(DType::bf16, {16, 1, 128});
                run(QkNormRope{.q = q.on(device),
                               .q_out = out.on(device),
                               .q_weight = weight.on(device),
                               .cos = cos.on(device),
                               .sin = sin.on(device),
                               .norm = norm,
                               .eps = 0,
                               .rounding = rounding});
                EXPECT_EQ(out[0], rounding == Rounding::fused ? -0.023681640625 : -0.0234375);
            }
        }
    }
    const std::string plain = "qk_norm_rope q=bf16[16,1,128] q_out=@q", eager = plain + " rounding=eager";
    EXPECT_THAT(rejection(eager), HasSubstr("qk_norm_rope.rounding: expected fused without tables"));
    EXPECT_THAT(rejection(eager + " cos=fp16[16,64] sin=fp16[16,64]"),
                HasSubstr("qk_norm_rope.cos: expected q's dtype or fp32 with rounding=eager, got fp16"));
    EXPECT_EQ(rejection(eager + " cos=fp32[16,64] sin=fp32[16,64]"), "accepted");
    EXPECT_THAT(rejection(plain + " addcmul=true"), HasSubstr("qk_norm_rope.addcmul: expected false"));
    EXPECT_EQ(rejection(eager + " cos=bf16[16,64] sin=bf16[16,64] q_weight=fp32[128] weight_offset=1"),
              "accepted");
    const std::string cast = plain + " rounding=eager_cast cos=bf16[16,64] sin=bf16[16,64] q_weight=";
    EXPECT_THAT(rejection(cast + "fp32[128]"), HasSubstr("qk_norm_rope.q_weight: expected q's dtype"));
    EXPECT_THAT(rejection(cast + "bf16[128] weight_offset=1"),
                HasSubstr("qk_norm_rope.weight_offset: expected 0 with rounding=eager_cast"));
}

// 1.0625 + 2^-12 is nearer to 1.125 than to 1, its neighbours in fp8_e4m3. In bf16 it is 1.0625, halfway between them.
TEST(QkNormRope, AStepRoundsBeforeACacheOfFewerBits) {
    HostTensor q(DType::bf16, {1, 1, 2}, {1.0625, 1}), cos(DType::bf16, {1, 1}, {1}),
        sin(DType::bf16, {1, 1}, {-0x1p-12}), slots(DType::int64, {1}, {0});
    for (const Device device : test::host_devices()) {
        for (const auto rounding : {Rounding::fused, Rounding::eager}) {
            HostTensor out(DType::bf16, {1, 1, 2}), cache(DType::fp8_e4m3, {1, 1, 1, 2});
            run(QkNormRope{.q = q.on(device),
                           .k = q.on(device),
                           .q_out = out.on(device),
                           .cos = cos.on(device),
                           .sin = sin.on(device),
                           .slots = slots.on(device),
                           .k_cache = cache.on(device),
                           .norm = QkNormRope::Norm::none,
                           .rounding = rounding});
            EXPECT_EQ(cache[0], rounding == Rounding::fused ? 1.125 : 1);
        }
    }
}

// What lies just inside of each limit.
TEST(QkNormRope, AcceptsWhatTheContractAllows) {
    const std::string q = "qk_norm_rope q=bf16[4,8,64] q_out=bf16[4,8,64]";
    const std::string both = q + " k=bf16[4,2,64] k_out=bf16[4,2,64]";
    const std::string axes = q + " positions=int32[4] positions2=int32[4] positions3=int32[4]";
    for (const std::string& line : {
             both + " k_weight=bf16[64]",
             both + " k_weight=bf16[128] weight_offset=1",
             q + " q_weight=bf16[512] weight_offset=1",
             q + " frequencies=fp32[32]",
             q + " cos=fp32[9,32] sin=fp32[9,32] start=5",
             q + " cos=fp32[1,32] sin=fp32[1,32] start=100 prefix=4",
             q + " cos=fp32[1,32] sin=fp32[1,32] start=100 positions=int32[4]",
             q + " head_cos=fp32[4,8,32] head_sin=fp32[4,8,32]",
             axes + " section2=20 section3=12",
             axes + " section2=11 section3=10 sections=alternate",
             both + " v=bf16[4,2,64] slots=int64[4] v_cache=fp8_e4m3[2,16,2,64] v_scale=fp32[2]",
             both + " v=bf16[4,2,64] slots=int64[4] v_cache=fp8_e4m3[2,16,2,64] v_scale=fp32[1]",
             std::string("qk_norm_rope q=bf16[4,1,512] q_out=bf16[4,1,512]"),
             std::string("qk_norm_rope q=bf16[4,1,514] q_out=bf16[4,1,514] frequencies=fp32[257]"),
             std::string("qk_norm_rope q=bf16[4,1,514] q_out=bf16[4,1,514] cos=fp32[9,257] sin=fp32[9,257]"),
         })
        EXPECT_EQ(rejection(line), "accepted") << line;
    EXPECT_THAT(rejection(axes + " section2=12 section3=10 sections=alternate"),
                HasSubstr("at most a third"));
    EXPECT_THAT(rejection(axes + " section2=11 section3=11 sections=alternate"),
                HasSubstr("at most a third"));
    EXPECT_THAT(rejection(q + " positions=int32[4] positions2=int32[4] section3=1"),
                HasSubstr("qk_norm_rope.section3: expected 0 without its positions, got 1"));
    EXPECT_THAT(
        rejection(both + " v=bf16[4,2,64] slots=int64[4] v_cache=fp8_e4m3[2,16,2,64] v_scale=fp32[3]"),
        HasSubstr("qk_norm_rope.v_scale: expected [1] or [kv_heads=2], got [3]"));
    EXPECT_THAT(rejection(both + " k_weight=bf16[512]"), HasSubstr("or of all, [128], got [512]"));
    EXPECT_THAT(rejection(q + " slots=int64[4] v_cache=bf16[2,16,2,64]"), testing::Not("accepted"));
}

// Every operand with tokens has one stride of all axes before them.
TEST(QkNormRope, RefusesAxesThatDoNotFoldInEachOperand) {
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"q", "bf16[2,3,4,8,64]"},     {"k", "bf16[2,3,4,8,64]"},     {"v", "bf16[2,3,4,8,64]"},
        {"q_out", "bf16[2,3,4,8,64]"}, {"k_out", "bf16[2,3,4,8,64]"}, {"v_out", "bf16[2,3,4,8,64]"}};
    const std::vector<std::pair<std::string, std::string>> places = {
        {"positions", "int64[2,3,4]"}, {"positions2", "int64[2,3,4]"}, {"positions3", "int64[2,3,4]"}};
    const std::vector<std::pair<std::string, std::string>> tables = {{"head_cos", "fp32[2,3,4,8,32]"},
                                                                     {"head_sin", "fp32[2,3,4,8,32]"}};
    for (const auto& more : {places, tables}) {
        auto fields = rows;
        fields.insert(fields.end(), more.begin(), more.end());
        for (std::size_t apart = 0; apart <= fields.size(); ++apart) {  // the last: none
            std::string line = "qk_norm_rope";
            for (std::size_t i = 0; i < fields.size(); ++i) {
                const bool place = fields[i].first.starts_with("positions");
                line.append(" ").append(fields[i].first).append("=").append(fields[i].second);
                if (i == apart) line += place ? "{100,7,1}" : "{10000,3000,512,64,1}";
            }
            if (apart == fields.size()) {
                EXPECT_EQ(rejection(line), "accepted") << line;
            } else {
                EXPECT_THAT(rejection(line), HasSubstr("qk_norm_rope." + fields[apart].first +
                                                       ": the axes before the tokens must fold"))
                    << line;
            }
        }
    }
}

TEST(QkNormRope, ARowIsNormedAsOneAndItsPrefixDoesNotTurn) {
    HostTensor q = waves({4, 2, 8}, 1.3);
    for (const Device device : test::host_devices()) {
        HostTensor out(DType::fp32, {4, 2, 8});
        run(QkNormRope{.q = q.on(device),
                       .q_out = out.on(device),
                       .norm = QkNormRope::Norm::row,
                       .eps = 0,
                       .prefix = 3});
        for (int token = 0; token < 4; ++token) {
            double before = 0, after = 0;
            for (int i = 0; i < 16; ++i) before += q[token * 16 + i] * q[token * 16 + i];
            for (int i = 0; i < 16; ++i) after += out[token * 16 + i] * out[token * 16 + i];
            EXPECT_NEAR(after, 16, 1e-4);
            // The fourth token is the first that turns, and at position 0.
            for (int i = 0; i < 16; ++i)
                EXPECT_NEAR(out[token * 16 + i], q[token * 16 + i] * std::sqrt(16 / before), 1e-5);
        }
    }
}

// A page's rows have room between them for another cache, whose rows must keep their bits.
TEST(QkNormRope, SlotsNameRowsOfPages) {
    HostTensor k = waves({5, 1, 4}, 1.1), v = waves({5, 1, 4}, 0.6), q = k;
    for (const Device device : test::host_devices()) {
        HostTensor slots(DType::int64, {5}, {5, -1, 0, 3, 2});
        HostTensor cache(DType::fp32, {3, 2, 2, 1, 4},
                         std::vector<double>(48, -9.0));  // pages, K and V, rows
        HostTensor q_out(DType::fp32, {5, 1, 4}), k_out(DType::fp32, {5, 1, 4});
        Tensor keys = cache.on(device);
        keys.rank = 4;
        for (int axis = 1; axis < 4; ++axis)
            keys.shape[axis] = keys.shape[axis + 1], keys.stride[axis] = keys.stride[axis + 1];
        Tensor values = keys;
        values.data = keys.as<float>() + 8;
        run(QkNormRope{.q = q.on(device),
                       .k = k.on(device),
                       .v = v.on(device),
                       .q_out = q_out.on(device),
                       .k_out = k_out.on(device),
                       .slots = slots.on(device),
                       .k_cache = keys,
                       .v_cache = values});
        const int slot_of[5] = {5, -1, 0, 3, 2};
        for (int i = 0; i < 5 * 4; ++i) EXPECT_EQ(q_out[i], k_out[i]);
        for (int row = 0; row < 6; ++row) {
            int token = -1;
            for (int t = 0; t < 5; ++t) token = slot_of[t] == row ? t : token;
            for (int i = 0; i < 4; ++i) {
                const int at = row / 2 * 16 + row % 2 * 4 + i;
                EXPECT_EQ(cache[at], token < 0 ? -9 : k_out[token * 4 + i]) << row;
                EXPECT_EQ(cache[at + 8], token < 0 ? -9 : v[token * 4 + i]) << row;
            }
        }
    }
}

TEST(QkNormRope, WhatIsOutsideIsLeftOutOnDevices) {
    for (const Device device : test::host_devices()) {
        if (device == kCpu) continue;
        HostTensor k = waves({3, 1, 4}, 1.1), q = k, q_out(DType::fp32, {3, 1, 4});
        HostTensor slots(DType::int64, {3}, {4, -7, 1e15});
        HostTensor cache(DType::fp32, {3, 2, 1, 4}, std::vector<double>(24, -9.0));  // and a page behind it
        run(QkNormRope{.q = q.on(device),
                       .k = k.on(device),
                       .q_out = q_out.on(device),
                       .slots = slots.on(device),
                       .k_cache = cache.on(device).slice(0, 0, 2)});
        for (int i = 0; i < 24; ++i) EXPECT_EQ(cache[i], -9);
    }
}

// On reserved address space, of which pages exist only where rows lie. A gap behind each page, so that its number counts.
TEST(QkNormRope, CachesOfMoreThanTwoToThe31Rows) {
    constexpr std::int64_t kPages = (std::int64_t{1} << 27) + 4, kRow = (std::int64_t{1} << 31) + 37;
    constexpr std::int64_t kPage = 16 * 4 + 4;  // elements
    constexpr std::size_t kBytes = kPages * kPage * sizeof(float);
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    for (const Device device : test::host_devices()) {
        HostTensor q = waves({1, 1, 4}, 0.7), k = waves({1, 1, 4}, 1.1), q_out(DType::fp32, {1, 1, 4}),
                   k_out(DType::fp32, {1, 1, 4}), slots(DType::int64, {1}, {static_cast<double>(kRow)});
        auto* const row = static_cast<float*>(memory) + kRow / 16 * kPage + kRow % 16 * 4;
        const std::int64_t shape[] = {kPages, 16, 1, 4}, stride[] = {kPage, 4, 4, 1};
        std::fill_n(row, 4, -9.0f);
        run(QkNormRope{.q = q.on(device),
                       .k = k.on(device),
                       .q_out = q_out.on(device),
                       .k_out = k_out.on(device),
                       .slots = slots.on(device),
                       .k_cache = Tensor(memory, DType::fp32, shape, stride, device)});
        for (int i = 0; i < 4; ++i) EXPECT_EQ(row[i], k_out[i]) << name(device.type);
    }
    munmap(memory, kBytes);
}

#ifdef WEFT_HAS_EMULATOR
// So many tokens that a lane has a unit of each of several heads: of all that it may, or of the few that are left; a scale
// for all heads of a cache or one for each; more pairs than a warp has lanes, with positions of their own.
TEST(QkNormRope, SeveralHeadsALane) {
    const std::string tokens = " positions=int64[17] slots=int64[17]",
                      heads = " k=bf16[17,8,128] v=bf16[17,8,128]",
                      fp8 = " k_cache=fp8_e4m3[2,16,8,128] v_cache=fp8_e5m2[2,16,8,128]";
    for (const std::string& line :
         {"q=bf16[17,32,128]" + heads + tokens + " q_weight=bf16[128] k_weight=bf16[128]" + fp8 +
              " k_scale=fp32[8] v_scale=fp32[1]",
          "q=bf16[17,27,128]" + heads + tokens + " k_cache=bf16[2,16,8,128] v_cache=bf16[2,16,8,128]" +
              " positions2=int64[17] positions3=int64[17] section2=20 section3=20 sections=alternate",
          "q=bf16[17,32,128]" + heads + tokens + fp8 + " norm=none pairs=interleaved"}) {
        test::expect_right("qk_norm_rope " + line + " q_out=bf16", "warps", "units=4");
    }
}

// A block of the kernel of tokens goes from one to the next, some once more than others.
TEST(QkNormRope, MoreTokensThanBlocks) {
    const std::string q = "q=bf16[150,8,128]", of_heads = " head_cos=bf16[150,8,64] head_sin=bf16[150,8,64]",
                      frames = "q=fp16[3,50,8,128] k=fp16[3,50,5,128] q_out=fp16 k_out=fp16";
    for (const std::string& line :
         {q + " q_out=bf16 norm=row pairs=interleaved", q + " q_out=@q norm=row" + of_heads,
          q + " q_out=bf16" + of_heads + " pairs=interleaved q_weight=fp32[128]",
          q + " q_out=bf16 head_cos=fp32[150,8,64] head_sin=fp32[150,8,64]",
          frames + " cos=fp16[70,64] sin=fp16[70,64] start=9 prefix=11 q_weight=fp16[128]",
          frames + " cos=fp32[70,64] sin=fp32[70,64] positions=int64[3,50] norm=row k_weight=fp32[640]",
          frames +
              " positions=int32[3,50] positions2=int32[3,50] positions3=int32[3,50] section2=20 section3=9"})
        test::expect_right("qk_norm_rope " + line, "tokens", "threads=64 blocks=64");
    // More pairs than threads, and units of fp32, which are twice as long.
    for (const char* angles : {" frequencies=fp32[256]", " head_cos=fp32[70,1,256] head_sin=fp32[70,1,256]"})
        test::expect_right(std::string("qk_norm_rope q=fp32[70,1,512] q_out=fp32 norm=row") + angles,
                           "tokens", "threads=32 blocks=64");
}

// Tables of a video's axes end to end: a row of 32 pairs begins at any element, so that each axis finds its own by positions
// that are the same for every video.
TEST(QkNormRope, RowsThatBeginAtAnyElementOfATable) {
    const std::string line =
        "qk_norm_rope q=bf16[2,60,3,64] k=bf16[2,60,3,64] q_out=bf16[2,60,3,64] k_out=bf16[2,60,3,64] "
        "cos=fp32[117,32]{1,1} sin=fp32[117,32]{1,1} positions=int32[2,60]{0,1} positions2=int32[2,60]{0,1} "
        "positions3=int32[2,60]{0,1} section2=12 section3=12 norm=none pairs=interleaved";
    test::expect_right(line, "warps", "lanes=4");
    test::expect_right(line + " rounding=eager", "vectors", "lanes=4");
}
#endif

// Three positions that agree are one; each section alone follows its own.
TEST(QkNormRope, SectionsFollowTheirPositions) {
    HostTensor q = waves({3, 2, 24}, 1.3);
    HostTensor near(DType::int32, {3}, {0, 1, 2}), far(DType::int32, {3}, {50, 60, 70});
    for (const Device device : test::host_devices()) {
        for (const auto sections : {QkNormRope::Sections::blocks, QkNormRope::Sections::alternate}) {
            const auto turned = [&](HostTensor& first, HostTensor& second, HostTensor& third) {
                HostTensor out(DType::fp32, {3, 2, 24});
                run(QkNormRope{.q = q.on(device),
                               .q_out = out.on(device),
                               .positions = first.on(device),
                               .positions2 = second.on(device),
                               .positions3 = third.on(device),
                               .section2 = 4,
                               .section3 = 3,
                               .sections = sections});
                return out;
            };
            HostTensor all = turned(near, near, near), plain(DType::fp32, {3, 2, 24});
            run(QkNormRope{.q = q.on(device), .q_out = plain.on(device)});
            EXPECT_EQ(all, plain);
            const HostTensor second = turned(near, far, near), third = turned(near, near, far);
            const bool blocks = sections == QkNormRope::Sections::blocks;
            for (int pair = 0; pair < 12; ++pair) {
                const bool in_second = blocks ? pair >= 5 && pair < 9 : pair % 3 == 1;
                const bool in_third = blocks ? pair >= 9 : pair % 3 == 2 && pair < 9;
                EXPECT_EQ(second[pair] != plain[pair], in_second) << pair;
                EXPECT_EQ(third[pair] != plain[pair], in_third) << pair;
            }
        }
    }
}

TEST(QkNormRope, PolicyFillsTheDevice) {
    if (test::configuration("qk_norm_rope q=bf16[1,1,2] q_out=bf16[1,1,2]").empty())
        GTEST_SKIP() << "no kernels";
    EXPECT_THAT(
        test::configuration("qk_norm_rope q=bf16[4608,24,128] k=bf16[4608,24,128] q_out=bf16[4608,24,128] "
                            "k_out=bf16[4608,24,128]"),
        HasSubstr("threads=192 blocks=660"));
    EXPECT_THAT(test::configuration("qk_norm_rope q=bf16[4608,4,128] q_out=bf16[4608,4,128]"),
                HasSubstr("units=1 warps=2 blocks=2304 lanes=8"));
    EXPECT_THAT(test::configuration("qk_norm_rope q=bf16[4608,4,136] q_out=bf16[4608,4,136]"),
                HasSubstr("tokens=4 threads=256 blocks=1152 lanes=16"));
    EXPECT_THAT(test::configuration("qk_norm_rope q=bf16[4608,4,128] q_out=bf16[4608,4,128] norm=row"),
                HasSubstr("threads=32 blocks=4224"));
    EXPECT_THAT(test::configuration("qk_norm_rope q=bf16[9,2,1040] q_out=bf16[9,2,1040] rotary_dim=64"),
                HasSubstr("lanes=32 rounds=3"));
}

}  // namespace
}  // namespace weft
