// What each op says of its work: the least bytes that a call moves and its floating-point operations (tests/ops/work.csv,
// some calls of every op). Floors and the shares that pages print follow from them, and no result shows them.
#include <gtest/gtest.h>

#include "verify/workload.h"
#include "weft/case.h"
#include "weft/op.h"

namespace weft {
namespace {

class WorkTable : public testing::TestWithParam<const OpEntry*> {};

TEST_P(WorkTable, HasTheBytesAndFlopsOfItsCalls) {
    const auto table = read_csv("tests/ops/work.csv");
    const std::string prefix = GetParam()->contract().name() + " ";
    int calls = 0;
    for (std::size_t i = 1; i < table.size(); ++i) {
        const std::string& line = table[i].at(0);
        if (!line.starts_with(prefix)) continue;
        ++calls;
        const Case c = Case::parse(line);
        c.with_call(kCpu, [&](const void* call) {
            const Work work = c.contract().work(call);
            EXPECT_DOUBLE_EQ(work.bytes, std::stod(table[i].at(1))) << line;
            EXPECT_DOUBLE_EQ(work.flops, std::stod(table[i].at(2))) << line;
        });
    }
    EXPECT_GE(calls, 2) << "calls of " << prefix << "in the table";
}

INSTANTIATE_TEST_SUITE_P(Ops, WorkTable, testing::ValuesIn(all_ops()),
                         [](const auto& info) { return info.param->contract().name(); });

}  // namespace
}  // namespace weft
