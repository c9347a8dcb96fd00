// grouped_gemm: refusals, numbers of groups that no drawn case has, and how mma.sync is configured.
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "ops/grouped_gemm/grouped_gemm.h"
#include "tests/ops/support.h"
#include "weft/context.h"

namespace weft {
namespace {

using test::configuration;
using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(GroupedGemm, RejectsWhatTheContractExcludes) {
    const std::string operands = "grouped_gemm a=bf16[20,16] b=bf16[3,8,16] ";
    EXPECT_EQ(rejection(operands + "group_ends=int32[3] out=bf16[20,8]"), "accepted");
    EXPECT_EQ(rejection("grouped_gemm a=bf16[3,7,16] b=bf16[3,8,16] out=bf16[3,7,8]"), "accepted");
    EXPECT_THAT(rejection(operands + "out=bf16[20,8]"),
                HasSubstr("grouped_gemm.a: expected [groups, rows, k], got [20, 16]"));
    EXPECT_THAT(rejection(operands + "group_ends=int32[3] counts=int32[3] out=bf16[20,8]"),
                HasSubstr("group_ends"));
    EXPECT_THAT(rejection(operands + "group_ends=int32[4] out=bf16[20,8]"),
                HasSubstr("grouped_gemm.group_ends: expected [groups=3]"));
    EXPECT_THAT(rejection(operands + "group_ends=int64[3] out=bf16[20,8]"), HasSubstr("group_ends"));
    EXPECT_THAT(rejection(operands + "counts=int32[3] out=bf16[20,8]"), HasSubstr("grouped_gemm.a"));
    EXPECT_THAT(rejection("grouped_gemm a=bf16[2,7,16] b=bf16[3,8,16] counts=int32[3] out=bf16[2,7,8]"),
                HasSubstr("groups"));
    EXPECT_THAT(rejection("grouped_gemm a=bf16[20,16] b=fp16[3,8,16] group_ends=int32[3] out=bf16[20,8]"),
                HasSubstr("grouped_gemm.b: expected a's dtype"));
    EXPECT_THAT(rejection(operands + "group_ends=int32[3] out=fp32[20,8]"), HasSubstr("grouped_gemm.out"));
    EXPECT_THAT(rejection(operands + "group_ends=int32[3] a_scale=fp32[1] out=bf16[20,8]"),
                HasSubstr("grouped_gemm.a_scale"));
    EXPECT_THAT(rejection(operands + "group_ends=int32[3] up_bias=bf16[3,8] out=bf16[20,8]"),
                HasSubstr("grouped_gemm.up_bias"));
    const std::string narrow = "grouped_gemm a=fp8_e4m3[20,200] b=fp8_e4m3[3,8,200] group_ends=int32[3] ";
    EXPECT_EQ(rejection(narrow + "a_group_scale=fp32[20,2] b_block_scale=fp32[3,1,2] out=bf16[20,8]"),
              "accepted");
    EXPECT_THAT(rejection(narrow + "a_scale=fp32[1] a_group_scale=fp32[20,2] out=bf16[20,8]"),
                HasSubstr("a_group_scale"));
    EXPECT_THAT(rejection(narrow + "b_scale=fp32[3] b_block_scale=fp32[3,1,2] out=bf16[20,8]"),
                HasSubstr("b_block_scale"));
}

// Weights that are (g + 1) times the identity, and small whole numbers: every result is exact. Rows of nobody are NaN.
class Groups {
   public:
    static constexpr std::int64_t kDim = 64;
    static constexpr double kUntouched = 77;

    Groups(std::vector<double> numbers, std::int64_t rows, bool counts)
        : numbers_(std::move(numbers)), rows_(rows), counts_(counts) {}
    // As many groups, each with all of its rows.
    static Groups whole(std::size_t groups, std::int64_t rows) {
        Groups all(std::vector<double>(groups, static_cast<double>(rows)), rows, true);
        all.told_ = false;
        return all;
    }

    // By the implementation of this name, or the reference.
    HostTensor run_on(Device device, const std::string& implementation, std::int64_t expected_rows) const {
        const auto groups = static_cast<std::int64_t>(numbers_.size());
        std::vector<std::int64_t> a_shape{rows_, kDim};
        if (counts_) a_shape.insert(a_shape.begin(), groups);
        std::vector<double> weights(static_cast<std::size_t>(groups * kDim * kDim));
        for (std::int64_t i = 0; i < groups * kDim; ++i)
            weights[static_cast<std::size_t>(i * kDim + i % kDim)] = static_cast<double>(i / kDim + 1);
        const std::int64_t all = counts_ ? groups * rows_ : rows_;
        std::vector<double> elements, untouched(static_cast<std::size_t>(all * kDim), kUntouched);
        for (std::int64_t i = 0; i < all * kDim; ++i)
            elements.push_back(group_of(i / kDim) < 0 ? std::numeric_limits<double>::quiet_NaN()
                                                      : element(i));
        HostTensor a(DType::bf16, a_shape, elements), b(DType::bf16, {groups, kDim, kDim}, weights);
        HostTensor numbers(DType::int32, {groups}, numbers_), out(DType::bf16, a_shape, untouched);
        GroupedGemm op{.a = a.on(device), .b = b.on(device), .out = out.on(device)};
        if (told_) (counts_ ? op.counts : op.group_ends) = numbers.on(device);
        op.expected_rows = expected_rows;
        Context context(device);
        for (const char* name : {"wgmma", "mma_sync"}) {
            if (name != implementation) context.avoid(name);
        }
        run(op, context);
        return out;
    }

    void expect(const HostTensor& out, const std::string& by) const {
        const std::int64_t all = counts_ ? static_cast<std::int64_t>(numbers_.size()) * rows_ : rows_;
        for (std::int64_t row = 0; row < all; ++row) {
            const std::int64_t group = group_of(row);
            for (std::int64_t at = row * kDim; at < (row + 1) * kDim; ++at)
                ASSERT_EQ(out[at], group < 0 ? kUntouched : element(at) * static_cast<double>(group + 1))
                    << by << ": row " << row << " of group " << group;
        }
    }

    void expect_by_all() const {
        expect(run_on(kCpu, "", 0), "the reference");
        expect_by_kernels();
    }
    void expect_by_kernels() const {
#if WEFT_HAS_EMULATOR
        for (const char* name : {"wgmma", "mma_sync"}) {
            for (const std::int64_t rows : {0, 10, 100, 300})
                expect(run_on(kEmulator, name, rows), name + (", for " + std::to_string(rows)));
        }
#endif
    }

   private:
    // -1 where it is nobody's.
    std::int64_t group_of(std::int64_t row) const {
        if (counts_) return row % rows_ < numbers_[static_cast<std::size_t>(row / rows_)] ? row / rows_ : -1;
        for (std::size_t g = 0; g < numbers_.size(); ++g) {
            if (row < numbers_[g]) return static_cast<std::int64_t>(g);
        }
        return -1;
    }
    static double element(std::int64_t i) { return static_cast<double>((i * 7 + i / kDim) % 5 - 2); }

    std::vector<double> numbers_;
    std::int64_t rows_;
    bool counts_, told_ = true;
};

TEST(GroupedGemm, GroupsOfAnySizeOneAfterTheOther) {
    for (const std::vector<double>& ends : std::vector<std::vector<double>>{
             {0}, {1}, {300}, {0, 0, 0}, {3, 3, 10}, {64, 128, 192}, {63, 128, 193, 193, 300}, {0, 299, 300}})
        Groups(ends, 300, false).expect_by_all();
}

// Numbers that the CPU refuses and a kernel can't: it stays within its tensors, and says whose rows are whose all the same.
TEST(GroupedGemm, EndsThatFallOrLieBeyondTheRows) {
    const Groups falling({5, 3, 40, -1, 12}, 20, false);
    EXPECT_THROW(falling.run_on(kCpu, "", 0), Error);
    falling.expect_by_kernels();
    Groups({-7, 2147483647, 9}, 20, false).expect_by_kernels();
    Groups({-2147483648.0, 4, 20}, 20, false).expect_by_kernels();
    // From the last group that a warp looks at to the first one that it looks at then.
    std::vector<double> many(40, 20);
    for (std::size_t g = 0; g < 32; ++g) many[g] = static_cast<double>(g / 2);
    many[32] = 3, many[33] = 9, many[34] = 17;
    Groups(many, 20, false).expect_by_kernels();
}

TEST(GroupedGemm, CountsOfAnySize) {
    Groups({0, 1, 17, 80, 79}, 80, true).expect_by_all();
    Groups({-3, 81, 2147483647, 64}, 80, true).expect_by_all();
}

TEST(GroupedGemm, WithoutNumbersEachGroupHasAllOfItsRows) {
    Groups::whole(1, 1).expect_by_all();
    Groups::whole(3, 130).expect_by_all();
    Groups::whole(70, 3).expect_by_all();
}

// More than a warp has lanes, so that they are taken in turns: most of them empty, or all with rows.
TEST(GroupedGemm, ManyGroups) {
    std::vector<double> few(100, 0), each(70);
    few[31] = few[32] = 5, few[33] = 20;
    for (std::size_t g = 34; g < few.size(); ++g) few[g] = g < 97 ? 20 : 31;
    Groups(few, 40, false).expect_by_all();
    for (std::size_t g = 0; g < each.size(); ++g) each[g] = static_cast<double>(2 * g + 1);
    Groups(each, 141, false).expect_by_all();
    for (std::size_t g = 0; g < each.size(); ++g) each[g] = static_cast<double>(g % 4);
    Groups(each, 3, true).expect_by_all();
}

TEST(GroupedGemm, MmaSyncIsAskedForWhatWgmmaDeclines) {
    const auto on = [](const char* operands, const char* device = "h200") {
        return configuration(std::string("grouped_gemm ") + operands, device);
    };
    EXPECT_THAT(on("a=bf16[999,60] b=bf16[4,60,60] group_ends=int32[4] out=bf16[999,60]"),
                HasSubstr("mma_sync: 64x64 tn"));
    EXPECT_THAT(on("a=bf16[64,60] b=bf16[4,60,60] group_ends=int32[4] out=bf16[64,60]"),
                HasSubstr("mma_sync: 16x64 tn"));
    EXPECT_THAT(on("a=bf16[999,64] b=bf16[4,64,64]{4096,1,64} up=bf16[4,64,64]{4096,1,64} "
                   "group_ends=int32[4] out=bf16[999,64]"),
                HasSubstr("mma_sync: 64x64 nn"));
    EXPECT_THAT(on("a=bf16[8192,512] b=bf16[4,4096,512] group_ends=int32[4] out=bf16[8192,4096]", "a100"),
                HasSubstr("mma_sync: 128x128 tn"));
    EXPECT_THAT(on("a=bf16[8192,512] b=bf16[4,4096,512] group_ends=int32[4] out=bf16[8192,4096] "
                   "expected_rows=20",
                   "a100"),
                HasSubstr("mma_sync: 64x64 tn"));
    EXPECT_THAT(on("a=fp8_e4m3[8192,500] b=fp8_e4m3[4,4096,500] group_ends=int32[4] "
                   "a_group_scale=fp32[8192,4] out=bf16[8192,4096]"),
                HasSubstr("mma_sync: 64x64 tn"));
}

}  // namespace
}  // namespace weft
