// Drawn cases: legal, the same by seed, of every form; and which kernels they fall to.
#include "bench/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "verify/workload.h"

namespace weft::test {
namespace {

constexpr int kCases = 1000;
constexpr std::uint64_t kSeed = 1;

std::vector<const OpEntry*> ops() {
    std::vector<const OpEntry*> found = all_ops();
    std::erase_if(found, [](const OpEntry* op) { return own_kernels(*op).empty(); });  // of tests
    return found;
}

const std::vector<Case>& drawn(const OpEntry* op) {
    static std::map<const OpEntry*, std::vector<Case>> all;
    if (!all.contains(op)) all[op] = draw_cases({op}, kCases, kSeed);
    return all[op];
}

std::vector<std::string> lines(const std::vector<Case>& cases) {
    std::vector<std::string> texts;
    for (const Case& c : cases) texts.push_back(c.line());
    return texts;
}

template <class Property>
int count(const OpEntry* op, Property property) {
    return static_cast<int>(std::count_if(drawn(op).begin(), drawn(op).end(), property));
}

TEST(Draw, IsTheSameForASeedWhateverElseIsAsked) {
    ASSERT_GE(ops().size(), 14u);
    const std::vector<const OpEntry*> two = {find_op("rms_norm"), find_op("gemm")};
    const auto first = lines(draw_cases(two, 20, 7));
    EXPECT_EQ(first, lines(draw_cases(two, 20, 7)));
    EXPECT_NE(first, lines(draw_cases(two, 20, 8)));
    const auto gemm = lines(draw_cases({two[1]}, 10, 7));
    for (std::size_t i = 0; i < gemm.size(); ++i)
        EXPECT_EQ(gemm[i], first[2 * i + 1]) << "in turn, and its own";
}

TEST(Draw, IsLegalNeitherTinyNorHugeAndTaken) {
    const DrawLimits limits;
    for (const OpEntry* op : ops()) {
        EXPECT_EQ(drawn(op).size(), kCases) << op->contract().name();
        std::set<std::string> different;
        for (const Case& c : drawn(op)) {
            EXPECT_NO_THROW(c.check()) << c.line();
            EXPECT_EQ(Case::parse(c.line()), c);
            EXPECT_NE(kernel_for(c), "") << c.line();
            c.with_call(kCpu, [&](const void* call) {
                const Work work = c.contract().work(call);
                EXPECT_GE(work.bytes, limits.least_bytes) << c.line();
                EXPECT_LE(work.bytes, limits.most_bytes) << c.line();
                EXPECT_LE(work.flops, limits.most_flops) << c.line();
            });
            different.insert(c.line());
        }
        EXPECT_GT(different.size(), kCases / 2) << op->contract().name();
    }
}

// Every dtype of every field that is always there, each optional field there and absent, each option off its default; and every
// kernel of the op's list takes some.
TEST(Draw, ReachesEveryFormAndEveryKernel) {
    for (const OpEntry* op : ops()) {
        const Contract& contract = op->contract();
        for (std::size_t i = 0; i < contract.fields().size(); ++i) {
            const Field& f = contract.fields()[i];
            if (f.optional) {  // beside which some dtypes are rare, and the scales of rare dtypes rarer still
                const int there = count(op, [&](const Case& c) { return c.tensors[i].present; });
                const bool scale = f.name.ends_with("scale");
                EXPECT_TRUE((there > 0 || scale) && there < kCases)
                    << contract.name() << " " << f.name << ": " << there;
                continue;
            }
            for (int d = 0; d < kDTypeCount; ++d) {
                const auto dtype = static_cast<DType>(d);
                if (!f.dtypes.contains(dtype)) continue;
                // No kernel of attention's takes fp32, which the CPU does.
                if (contract.name() == "attention" && dtype == DType::fp32) continue;
                const auto has = [&](const Case& c) { return c.tensors[i].dtype == dtype; };
                EXPECT_GT(count(op, has), 0) << contract.name() << " " << f.name << " " << name(dtype);
            }
        }
        for (std::size_t i = 0; i < contract.options().size(); ++i) {
            const Option& option = contract.options()[i];
            if (option.axis >= 0) continue;  // a size
            for (const double value : option.samples) {
                EXPECT_GT(count(op,
                                [&](const Case& c) {
                                    return static_cast<float>(c.options[i]) == static_cast<float>(value);
                                }),
                          0)
                    << contract.name() << " " << option.name << "=" << value;
            }
        }
        std::set<std::string> taken;
        for (const Case& c : drawn(op)) {
            const std::string kernel = kernel_for(c);
            taken.insert(kernel.substr(0, kernel.find(' ')));
        }
        for (const AnyImplementation& i : own_kernels(*op))
            EXPECT_TRUE(taken.contains(i.name)) << contract.name() << " " << i.name;
    }
}

TEST(Draw, HasSizesRowsAndViewsAsUsersDo) {
    const OpEntry* op = find_op("rms_norm");
    const auto x = static_cast<std::size_t>(op->contract().find_field("x"));
    const auto share = [&](auto property) {
        return count(op, [&](const Case& c) { return property(c.tensors[x]); }) / static_cast<double>(kCases);
    };
    const auto rows = [](const TensorSpec& t) {
        return static_cast<double>(t.over(nullptr, kCpu).numel()) / static_cast<double>(t.shape.back());
    };
    EXPECT_GT(share([&](const TensorSpec& t) { return rows(t) <= 64; }), 0.1);
    EXPECT_GT(share([&](const TensorSpec& t) { return rows(t) > 4096; }), 0.1);
    for (const auto& [of, least] : {std::pair{256, 0.1}, std::pair{64, 0.25}, std::pair{8, 0.6}})
        EXPECT_GT(share([&, of = of](const TensorSpec& t) { return t.shape.back() % of == 0; }), least) << of;
    EXPECT_GT(share([](const TensorSpec& t) { return t.shape.back() % 2 != 0; }), 0.02);
    for (const std::int64_t low : {64, 512, 4096})  // log-uniform: a share in each octave or two
        EXPECT_GT(
            share([&](const TensorSpec& t) { return t.shape.back() >= low && t.shape.back() < 4 * low; }),
            0.1)
            << low;
    EXPECT_GT(share([](const TensorSpec& t) { return !t.stride.empty(); }), 0.03);
    EXPECT_GT(share([](const TensorSpec& t) { return t.offset % 8 != 0; }), 0.01);
    EXPECT_GT(share([](const TensorSpec& t) { return t.stride.empty() && t.offset == 0; }), 0.75)
        << "most are plain";
    EXPECT_GT(share([](const TensorSpec& t) { return t.dtype == DType::bf16; }), 0.5);
    const auto weight = static_cast<std::size_t>(op->contract().find_field("weight"));
    EXPECT_GT(count(op,
                    [&](const Case& c) {
                        return c.tensors[x].dtype == DType::bf16 && c.tensors[weight].present &&
                               c.tensors[weight].dtype == DType::fp32;
                    }),
              100)
        << "bf16 rows with fp32 weights are what most checkpoints have";
}

// What falls to a kernel that is general or slow may become less, and not more: slow_kernels.csv.
TEST(Draw, FallsToSlowKernelsNoMoreOftenThanItMay) {
    std::map<std::string, std::vector<std::vector<std::string>>> slow;
    for (const auto& row : read_csv(std::filesystem::path(WEFT_SOURCE_DIR) / "tests/bench/slow_kernels.csv"))
        slow[row[0]].push_back(row);
    for (const OpEntry* op : ops()) {
        for (const auto& row : slow[op->contract().name()]) {
            const std::regex kernel(row[1]);
            const double share =
                100.0 * count(op, [&](const Case& c) { return std::regex_search(kernel_for(c), kernel); }) /
                kCases;
            std::cout << op->contract().name() << ": " << row[1] << " (" << row[2] << ") takes " << share
                      << " % of " << kCases << " drawn cases; ceiling " << row[3] << " %\n";
            EXPECT_LE(share, std::stod(row[3]))
                << op->contract().name() << ": more cases fall to " << row[1] << ", " << row[2];
            EXPECT_GT(share, 0) << op->contract().name() << ": nothing falls to " << row[1]
                                << ": take its row out of slow_kernels.csv";
        }
    }
}

}  // namespace
}  // namespace weft::test
