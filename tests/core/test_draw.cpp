// What the verifier's inputs hold, and what one call leaves for the next: values that tell, bytes that are poison, contexts
// that several cases share.
#include "verify/draw.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>

#include "core/elements.h"
#include "tests/core/probe.h"
#include "verify/fuzz.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

std::vector<double> drawn(const Fill& fill, DType dtype, std::vector<std::int64_t> shape, Drawing drawing,
                          std::int64_t limit = kUnknown, std::uint64_t seed = 3) {
    Field field;
    field.fill = fill;
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    std::vector<std::int64_t> memory(static_cast<std::size_t>(n));
    const Tensor view(memory.data(), dtype, std::span<const std::int64_t>(shape));
    draw_input(field, view, limit, drawing, Random(seed));
    std::vector<double> values;
    for_each_offset(view, [&](std::int64_t i) { values.push_back(load_element(dtype, memory.data(), i)); });
    return values;
}

int rows_of_one_value(const std::vector<double>& values, std::size_t dim) {
    int rows = 0;
    for (std::size_t row = 0; row * dim < values.size(); ++row) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * dim);
        rows += std::set(begin, begin + static_cast<std::ptrdiff_t>(dim)).size() == 1 ? 1 : 0;
    }
    return rows;
}

TEST(Drawn, ConstantAndTinyRowsStandBetweenUsualOnes) {
    const auto constant = drawn(Fill::normal(), DType::fp32, {200, 16}, {Values::constant});
    EXPECT_GT(rows_of_one_value(constant, 16), 60);
    EXPECT_LT(rows_of_one_value(constant, 16), 140);
    std::set<double> firsts;
    for (std::size_t row = 0; row < 200; ++row) firsts.insert(constant[row * 16]);
    EXPECT_GT(firsts.size(), 60u) << "rows differ, so that a wrong row shows";
    int tiny = 0;
    const auto values = drawn(Fill::normal(), DType::fp32, {200, 16}, {Values::tiny});
    for (std::size_t row = 0; row < 200; ++row) tiny += std::fabs(values[row * 16]) < 0x1p-16 ? 1 : 0;
    EXPECT_GT(tiny, 60);
    EXPECT_LT(tiny, 140);
}

TEST(Drawn, RisingRowsHaveTheirLargestElementLate) {
    const auto values = drawn(Fill::normal(), DType::fp32, {100, 256}, {Values::rising});
    int late = 0;
    for (std::size_t row = 0; row < 100; ++row) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * 256);
        late += std::max_element(begin, begin + 256) - begin >= 128 ? 1 : 0;
    }
    EXPECT_GT(late, 65);
}

TEST(Drawn, TiesLieBetweenNeighboursOfNarrowDTypes) {
    const auto values = drawn(Fill::normal(), DType::fp32, {4000}, {Values::ties});
    for (const DType dtype : {DType::fp8_e4m3, DType::fp8_e5m2, DType::bf16, DType::fp16}) {
        int ties = 0;
        for (const double value : values) {
            const double rounded = round_to(dtype, value), other = 2 * value - rounded;
            ties += rounded != value && round_to(dtype, other) == other ? 1 : 0;
        }
        EXPECT_GT(ties, 150) << name(dtype);
    }
    for (const double scale : drawn(Fill::scale(), DType::fp32, {20}, {Values::ties})) {
        int exponent = 0;
        EXPECT_EQ(std::frexp(scale, &exponent), 0.5) << "a scale that leaves ties where they are";
    }
}

TEST(Drawn, MasksAreAnyByte) {
    const auto values = drawn(Fill::mask(), DType::uint8, {2000}, {Values::usual});
    EXPECT_GT(std::set(values.begin(), values.end()).size(),
              200u);  // also those that a signed byte has below 0
    EXPECT_GT(std::count(values.begin(), values.end(), 0), 300);
}

TEST(Drawn, NumbersOutsideAreForDevicesAndWhereTheOpSaysWhatTheyDo) {
    const Fill defined = Fill::index("rows").outside_is_defined();
    const auto outside = [](const std::vector<double>& values) {
        return std::count_if(values.begin(), values.end(), [](double v) { return v < 0 || v >= 7; });
    };
    const auto on_device = drawn(defined, DType::int64, {1000}, {Values::special, true}, 7);
    EXPECT_GT(outside(on_device), 100);
    const std::set found(on_device.begin(), on_device.end());
    for (const double end : {7.0, 8.0, -1.0}) EXPECT_TRUE(found.contains(end)) << end;
    EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](double v) {
        return v >= 0x1p32 && v < 0x1p32 + 7;
    })) << "a number that 32 bits take for one inside";
    EXPECT_EQ(outside(drawn(defined, DType::int64, {1000}, {Values::special, false}, 7)), 0);
    EXPECT_EQ(outside(drawn(defined, DType::int64, {1000}, {Values::usual, true}, 7)), 0);
    EXPECT_EQ(outside(drawn(Fill::index("rows"), DType::int64, {1000}, {Values::special, true}, 7)), 0);
}

#if !defined(__SANITIZE_ADDRESS__)
TEST(Drawn, BytesAroundATensorArePoison) {
    const Case c = Case::parse("probe x=bf16[3,8] weight=fp32[8]");
    const Instance instance(c, kCpu, 5, Values::usual, 0xa5);
    for (const std::size_t field : {std::size_t{0}, std::size_t{1}}) {
        std::vector<std::byte> memory;
        instance.read(field, memory);
        const std::size_t first = instance.first_byte(field);
        ASSERT_GE(first, 64u);
        EXPECT_EQ(memory[first - 1], std::byte{0xa5});
        EXPECT_EQ(memory.back(), std::byte{0xa5});
    }
}
#endif

// Many generated cases of the probe through an implementation of ours.
FuzzReport fuzz_with(void (*launch)(const Probe&, Context&)) {
    static void (*run)(const Probe&, Context&);
    run = launch;
    static const OpEntry kEntry = [] {
        OpEntry entry = *find_op("probe");
        entry.implementations[0] = {{"keeping",
                                     +[](const Probe&, const DeviceInfo&) -> const char* { return nullptr; },
                                     +[](const Probe&, const DeviceInfo&) { return std::string("planted"); },
                                     +[](const Probe& op, Context& context) { run(op, context); }}};
        return entry;
    }();
    FuzzOptions options;
    options.cases = 40;
    return fuzz(kEntry, options);
}

void run_reference(const Probe& op) {
    Oracle plain;
    reference(op, plain);
}

struct Plan {
    std::int64_t dim = -1;  // without a key: the first call's serves all
};

TEST(Contexts, AreSharedByCasesSoThatAWrongKeyShows) {
    EXPECT_TRUE(fuzz_with([](const Probe& op, Context&) { run_reference(op); }).failures.empty());
    const FuzzReport report = fuzz_with([](const Probe& op, Context& context) {
        Plan& plan = context.slot<Plan>();
        if (plan.dim < 0) plan.dim = op.x.dim(-1);
        Probe planned = op;
        if (plan.dim < op.x.dim(-1)) planned.factor *= 2;
        run_reference(planned);
    });
    ASSERT_FALSE(report.failures.empty());
    EXPECT_THAT(report.failures.front().why, HasSubstr("something kept from an earlier call shows"));
}

TEST(Contexts, HaveScratchThatIsPoisonBeforeEachRun) {
    const FuzzReport report = fuzz_with([](const Probe& op, Context& context) {
        auto* counter = static_cast<int*>(context.scratch(64));
        Probe counted = op;
        if (*counter != 0) counted.factor *= 2;  // taken for 0, as fresh memory mostly is
        *counter = 0;
        run_reference(counted);
    });
    EXPECT_FALSE(report.failures.empty());
    static std::vector<unsigned> found;  // by each run, where the one before left something else
    fuzz_with([](const Probe& op, Context& context) {
        auto* byte = static_cast<unsigned char*>(context.scratch(64)) + 63;
        found.push_back(std::exchange(*byte, static_cast<unsigned char>(0x11)));
        run_reference(op);
    });
    EXPECT_THAT(found, testing::Each(testing::AnyOf(0xffu, 0x55u)));
    EXPECT_THAT(found, testing::Contains(0xffu));
    EXPECT_THAT(found, testing::Contains(0x55u));
}

// It is larger than what was asked for, and a byte behind that would be another's elsewhere.
TEST(Contexts, HaveScratchThatEndsWhereItWasAskedTo) {
    static std::size_t asked, written;
    const auto writing = [](const Probe& op, Context& context) {
        std::memset(context.scratch(asked), 0, written);
        run_reference(op);
    };
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{3} << 20}) {
        asked = written = bytes;
        EXPECT_TRUE(fuzz_with(writing).failures.empty());
    }
    asked = 100, written = 101;  // behind more than there is beforehand nothing need be
    const FuzzReport report = fuzz_with(writing);
    ASSERT_FALSE(report.failures.empty());
    EXPECT_THAT(report.failures.front().why, HasSubstr("behind the scratch memory that was asked for"));
}

TEST(Generator, DrawsLongAxesWithinItsBounds) {
    Random random(4);
    const GenerateLimits limits;
    bool many_rows = false, long_rows = false;
    for (int i = 0; i < 300; ++i) {
        const auto c = generate_large(*find_op("probe"), device_info(kCpu), random, limits);
        ASSERT_TRUE(c.has_value());
        double elements = 0;
        for (const TensorSpec& spec : c->tensors)
            elements += spec.present ? static_cast<double>(spec.span()) : 0;
        EXPECT_LE(elements, 8 * limits.elements);
        const Tensor x = c->tensors[0].over(nullptr, kCpu);
        long_rows = long_rows || x.dim(-1) > 16384;
        many_rows = many_rows || (x.numel() > 0 && x.numel() / x.dim(-1) > 16384);
    }
    EXPECT_TRUE(many_rows && long_rows);
}

}  // namespace
}  // namespace weft::test
