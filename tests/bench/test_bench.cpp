// Statistics, floors, and measuring on the host as far as it can be tested there.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "bench/evidence.h"
#include "bench/floor.h"
#include "bench/measure.h"
#include "bench/rotation.h"
#include "tests/core/probe.h"

namespace weft::test {
namespace {

TEST(Statistics, OfKnownSamples) {
    const Statistics s = summarize({5, 1, 4, 2, 3});
    EXPECT_EQ(s.median, 3);
    EXPECT_EQ(s.mean, 3);
    EXPECT_EQ(s.minimum, 1);
    EXPECT_DOUBLE_EQ(s.p10, 1.4);
    EXPECT_DOUBLE_EQ(s.p90, 4.6);
    EXPECT_DOUBLE_EQ(s.deviation, std::sqrt(2.5));
    EXPECT_EQ(summarize({7}).p90, 7);
    EXPECT_DOUBLE_EQ(summarize({1, 2}).median, 1.5);
    EXPECT_THROW(summarize({}), Error);
}

TEST(Floors, NameWhatBinds) {
    DeviceInfo d = *find_device("h200");
    EXPECT_THAT(floor_text({.bytes = 1e9, .flops = 1e6}, d), testing::HasSubstr("bound by memory"));
    EXPECT_THAT(floor_text({.bytes = 1e3, .flops = 1e12, .math = DType::bf16}, d),
                testing::HasSubstr("bound by arithmetic"));
    EXPECT_THAT(floor_text({.bytes = 1, .flops = 1}, d), testing::HasSubstr("bound by a kernel's launch"));
    EXPECT_EQ(floor_text({.bytes = 1e9}, device_info(kCpu)), "");
    EXPECT_EQ(rate_text({.bytes = 4e9, .flops = 1}, d, 1000), "4.00 TB/s");
    EXPECT_EQ(rate_text({.bytes = 1, .flops = 7e11, .math = DType::bf16}, d, 1000), "700 TFLOP/s");
}

TEST(Measuring, ChecksBeforeAndAfter) {
    const Case c = Case::parse("probe x=fp32[16,64] weight=fp32[64] sums=fp32");
    const Measurement m = measure(c, kCpu, {.rounds = 3, .replay_us = 100, .seed = 1, .implementation = ""});
    EXPECT_TRUE(m.checked) << m.why;
    ASSERT_TRUE(m.cold && m.hot);
    EXPECT_GT(m.cold->median, 0);
    EXPECT_EQ(m.hot->samples, 3);
    const auto rows = measurement_rows(c, m, {"run", "env", "file/row"});
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["cache"], "cold");
    EXPECT_EQ(rows[0]["workload"], "file/row");
    EXPECT_EQ(rows[1]["us"]["median"], m.hot->median);
}

TEST(Measuring, CallsOverTheirInputsAreCheckedFromAFreshStart) {
    const Measurement m = measure(Case::parse("probe x=fp32[16,64] out=@x factor=2"), kCpu,
                                  {.rounds = 2, .replay_us = 50, .seed = 1, .implementation = ""});
    EXPECT_TRUE(m.checked) << m.why;
}

TEST(Measuring, AWrongKernelGetsNoTime) {
    OpEntry entry = *find_op("probe");
    entry.implementations[0] = {
        {"wrong", [](const void*, const DeviceInfo&) -> const char* { return nullptr; },
         [](const void*, const DeviceInfo&) { return std::string(); }, [](const void*, Context&) {}}};
    Case c(entry);
    c.tensors = Case::parse("probe x=fp32[16,64]").tensors;
    const Measurement m = measure(c, kCpu);
    EXPECT_FALSE(m.checked);
    EXPECT_FALSE(m.cold || m.hot);
    EXPECT_THAT(m.why, testing::HasSubstr("out[0,0]: got nan"));
    EXPECT_TRUE(measurement_rows(c, m, {})[0]["us"].is_null());
}

TEST(Rotations, HoldTheSameOperandsInOtherMemory) {
    const Case c = Case::parse("probe x=bf16[4,8]+3 weight=fp32[8] out=@x");
    const Instance instance(c, kCpu, 1, Values::usual);
    const Rotation rotation(c, instance, 3);
    ASSERT_EQ(rotation.sets(), 3u);
    const auto* a = static_cast<const Probe*>(instance.call());
    for (std::size_t set = 0; set < 3; ++set) {
        const auto* b = static_cast<const Probe*>(rotation.call(set));
        EXPECT_NE(a->x.data, b->x.data);
        EXPECT_EQ(b->x.data, b->out.data);
        EXPECT_EQ(std::memcmp(a->x.data, b->x.data, 64), 0);
        EXPECT_EQ(std::memcmp(a->weight.data, b->weight.data, 32), 0);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b->x.data) % 16, 6u);  // the offset is kept
    }
    EXPECT_EQ(Rotation::sets_for(c, instance, 5120), 10u);
}

TEST(Measuring, ShortensWhatTheHostCannotCompare) {
    const Case c = Case::parse("probe x=bf16[1000,8] weight=bf16[8]");
    EXPECT_EQ(shortened(c, 1e6), c);
    const Case s = shortened(c, 1608);
    EXPECT_EQ(s.tensors[0].shape[0], 100);
    EXPECT_NO_THROW(s.check());
}

}  // namespace
}  // namespace weft::test
