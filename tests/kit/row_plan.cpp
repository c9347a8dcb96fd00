// The policy of row kernels, without a GPU: every plan must be one that a kernel is compiled for and that
// covers the row, for all shapes of the workloads and many others.
#include "kit/row_plan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

namespace weft {
namespace {

void expect_valid(const RowProblem& problem, const DeviceInfo& device) {
    const RowPlan plan = plan_rows(problem, device);
    SCOPED_TRACE(device.name + " " + std::to_string(problem.rows) + " x " + std::to_string(problem.dim) +
                 " of " + std::to_string(problem.element_bytes) + " bytes" +
                 (problem.whole() ? problem.form.uniform ? "" : ", mixed" : ", not whole") + ": " +
                 to_string(plan));
    EXPECT_EQ(plan.width, plan.uniform && !plan.any ? 16 / problem.element_bytes : kOctet);
    EXPECT_EQ(plan.any, plan.uniform && problem.form.any);
    EXPECT_TRUE(!plan.any || problem.piece % plan.piece == 0);
    EXPECT_TRUE(!plan.any || problem.whole() || plan.lanes % detail::row_squad(plan.piece, plan.vectors) == 0)
        << "squads share a row";
    EXPECT_TRUE(problem.form.uniform || !plan.uniform);
    EXPECT_LE(plan.threads(), detail::row_threads(plan.vectors, row_form(plan, problem)));
    EXPECT_EQ(plan.threads() % 32, 0);
    EXPECT_TRUE(!plan.uniform || detail::resident_blocks(plan, problem, device) >= 1);
    EXPECT_LE(plan.cluster, device.arch >= 90 ? device.max_cluster : 1);
    EXPECT_TRUE(plan.lanes > 32 ? plan.rows == 1 && plan.lanes % 32 == 0
                                : (plan.lanes & (plan.lanes - 1)) == 0);
    EXPECT_TRUE(plan.cluster == 1 || plan.lanes > 32) << "blocks of a cluster share one row each";
    EXPECT_GE(plan.blocks(problem.rows) * plan.rows, problem.rows * plan.cluster);
    EXPECT_TRUE(!plan.uniform || plan.any || plan.vectors > 2 || plan.cluster == 1)
        << "one and two are no cluster's";
    EXPECT_GE(plan.vectors, 1);
    const std::int64_t held = std::int64_t{plan.lanes} * plan.cluster * plan.vectors * plan.width;
    // What the largest cluster does not hold comes in chunks. A ragged row may begin anywhere in its first octet.
    const std::int64_t needed = problem.dim + (problem.whole() || plan.uniform ? 0 : kOctet - 1);
    const std::int64_t most = std::int64_t{device.arch >= 90 ? device.max_cluster : 1} *
                              detail::row_threads(0, {}) * detail::kMixedVectors * kOctet;
    EXPECT_GE(held, plan.uniform ? needed : std::min(needed, most));
}

TEST(RowPlan, IsOneThatAKernelTakes) {
    for (const std::string& name : device_names()) {
        for (const std::int64_t rows : {1, 2, 10, 131, 133, 968, 4096, 32768, 1 << 20}) {
            for (const std::int64_t dim :
                 {1,    2,     3,     8,     31,    32,    33,     64,     100,    128,
                  255,  256,   257,   1000,  1024,  1152,  2048,   3072,   4096,   5120,
                  8192, 12288, 16384, 32768, 50257, 65536, 131072, 262144, 262145, 1 << 22}) {
                for (const int bytes : {2, 4}) {
                    for (const int piece : {1, 2, 4, kOctet}) {
                        if (dim % piece != 0) continue;
                        for (const bool bare : {false, true}) {
                            const RowForm any{.uniform = true, .beside = true, .any = true, .bare = bare};
                            expect_valid({rows, dim, bytes, piece, any}, *find_device(name));
                        }
                        expect_valid({rows, dim, bytes, piece, {}}, *find_device(name));
                        if (piece == kOctet)
                            expect_valid({rows, dim, bytes, piece, {true}}, *find_device(name));
                    }
                }
            }
        }
    }
}

// What plans count on is what kernels are compiled for: the most threads of a block, with their registers, have room on
// an SM, in whole warps.
TEST(RowPlan, TheMostThreadsHaveTheirRegisters) {
    for (int bits = 0; bits < 32; ++bits) {
        const RowForm form{.uniform = (bits & 1) != 0,
                           .bias = (bits & 2) != 0,
                           .residual = (bits & 4) != 0,
                           .fp8 = (bits & 8) != 0,
                           .beside = (bits & 16) != 0};
        for (const int vectors : detail::kRowVectors) {
            const int threads = detail::row_threads(vectors, form);
            EXPECT_LE(threads, 1024);
            EXPECT_EQ(threads % 32, 0);
            EXPECT_LE(threads * detail::row_registers(vectors, form), 65536) << vectors << ", form " << bits;
        }
    }
}

TEST(RowPlan, KnowsHowManyBlocksTakeTurns) {
    const auto resident = [](const char* device, int lanes, int vectors, int shared = 0) {
        DeviceInfo info = *find_device(device);
        if (shared > 0) info.shared_per_sm = shared;
        const RowProblem problem{4096, 4096, 2, kOctet, {true}};
        return detail::resident_blocks({8, vectors, lanes, 1, 1}, problem, info);
    };
    EXPECT_EQ(resident("h200", 32, 1), 32) << "no SM has more";
    EXPECT_EQ(resident("h200", 512, 1), 4) << "threads";
    EXPECT_EQ(resident("a100", 512, 1), 4);
    EXPECT_EQ(resident("rtx4090", 512, 1), 3) << "of which some cards have fewer";
    EXPECT_EQ(resident("h200", 512, 4), 2) << "registers";
    EXPECT_EQ(resident("h200", 32, 1, 10 * 3072 + 3071), 10) << "shared memory";
}

// Rows in registers wherever the device can: a row is read once.
TEST(RowPlan, ReadsRowsOnce) {
    const auto holds_all = [](const RowProblem& problem, const char* device) {
        const RowPlan plan = plan_rows(problem, *find_device(device));
        return std::int64_t{plan.lanes} * plan.cluster * plan.vectors * plan.width >= problem.dim;
    };
    for (const std::int64_t dim : {256, 4096, 16384, 65536, 131072, 262144}) {
        for (const int bytes : {2, 4}) {
            for (const std::int64_t rows : {1, 8192, 32768})
                EXPECT_TRUE(holds_all({rows, dim, bytes, kOctet, {true}}, "h200")) << rows << " x " << dim;
        }
    }
    const RowForm bare{.uniform = true, .beside = true, .any = true, .bare = true};
    EXPECT_TRUE(holds_all({8192, 50257, 2, 1, bare}, "h200"));
    EXPECT_TRUE(holds_all({8192, 262135, 2, 1, bare}, "h200"));
    EXPECT_TRUE(holds_all({8192, 131072, 2, 1, {}}, "h200"));
    EXPECT_FALSE(holds_all({8192, 131073, 2, 1, {}}, "h200"));
    EXPECT_TRUE(holds_all({4096, 32768, 2, kOctet, {true, false}}, "a100"));
    EXPECT_FALSE(holds_all({4096, 65536, 2, kOctet, {true}}, "a100"));
}

// A uniform call runs in a uniform kernel as long as its row fits into registers, of a cluster if need be.
TEST(RowPlan, KeepsLongRowsInTheRegistersOfAClusterWhereThereAreClusters) {
    const RowProblem wide{8192, 262144, 2, kOctet, {true}};
    const RowPlan plan = plan_rows(wide, *find_device("h200"));
    EXPECT_EQ(plan.vectors, 8);
    EXPECT_EQ(plan.cluster, 16);
    EXPECT_TRUE(row_form(plan, wide).uniform);
    const RowProblem narrower{8192, 65536, 2, kOctet, {true}};
    EXPECT_FALSE(row_form(plan_rows(narrower, *find_device("a100")), narrower).uniform);
}

// The plans that were within 1 % of the fastest on an H200 of all that there are, for an op with a weight and no bias.
TEST(RowPlan, IsTheFastestMeasured) {
    const auto expect = [](std::int64_t rows, std::int64_t dim, int vectors, int lanes, int cluster) {
        const RowForm form{.uniform = true, .bias = false, .residual = false, .fp8 = false};
        const RowPlan plan = plan_rows({rows, dim, 2, kOctet, form}, *find_device("h200"));
        EXPECT_EQ(plan, (RowPlan{8, vectors, lanes, 1, cluster, rows > 1})) << dim << ": " << to_string(plan);
    };
    expect(32768, 4096, 4, 128, 1);
    expect(32768, 8192, 4, 256, 1);
    expect(32768, 16384, 8, 128, 2);
    expect(32768, 24576, 8, 192, 2);
    expect(32768, 32768, 8, 128, 4);
    expect(32768, 65536, 8, 128, 8);
    expect(16384, 131072, 8, 256, 8);  // 16 blocks are as fast, but are not portable
    expect(8192, 262144, 8, 256, 16);
    expect(1, 65536, 4, 128, 16);  // a row alone waits for its last vector, and least in small blocks
}

// And of few rows, of which each plan was timed: short rows go to the lanes of a warp before there are thousands of blocks of
// two, long ones to many small blocks, and a kernel that begins its rows slowly gives a thread more.
TEST(RowPlan, IsTheFastestMeasuredOfFewRows) {
    const auto expect = [](const RowProblem& problem, int vectors, int lanes, int cluster = 1) {
        const RowPlan plan = plan_rows(problem, *find_device("h200"));
        EXPECT_TRUE(plan.vectors == vectors && plan.lanes == lanes && plan.cluster == cluster)
            << problem.rows << " x " << problem.dim << ": " << to_string(plan);
    };
    const RowForm plain{.uniform = true, .bias = false, .residual = false, .fp8 = false};
    expect({1, 2048, 2, kOctet, plain}, 1, 256);
    expect({50, 1024, 2, kOctet, plain}, 1, 128);
    expect({968, 2048, 2, kOctet, plain}, 1, 256);
    expect({4096, 512, 2, kOctet, plain}, 2, 32);
    expect({1, 32000, 2, kOctet, plain}, 4, 128, 8);
    expect({16, 16384, 2, kOctet, plain}, 4, 128, 4);
    expect({480, 6488, 2, kOctet, plain}, 2, 416);
    const RowForm wide{.uniform = true, .fp8 = false, .wide = true};
    expect({968, 2048, 2, kOctet, wide}, 2, 128);
    expect({4096, 1032, 2, kOctet, wide}, 2, 96);
    const RowForm bare{.uniform = true, .beside = true, .any = true, .bare = true};
    expect({512, 3072, 4, kOctet, bare}, 2, 192);
    expect({2048, 1001, 2, 1, bare}, 4, 32);
    expect({256, 4001, 2, 1, bare}, 4, 128);
    expect({128, 1001, 2, 1, bare}, 1, 128);
    expect({5248, 7424, 2, kOctet, bare}, 4, 256);  // these are many: two blocks would wait for each other
    const RowForm beside{.uniform = true, .beside = true};
    expect({10560, 64, 2, kOctet, beside, 1, 2}, 2, 4);
    expect({2456, 128, 2, kOctet, beside}, 1, 16);
    const RowForm any{.uniform = true, .beside = true, .any = true};
    expect({512, 1803, 2, 1, any, 1, 2}, 2, 128);
    expect({16, 6338, 2, 1, any}, 1, 224, 4);
}

// Many short rows: a thread has several vectors of one, for all that it does once for a row; but those of a row that lie
// side by side are half a line at least. Few rows: the sooner the last vector is there.
TEST(RowPlan, GivesShortRowsToFewLanes) {
    const auto expect = [](std::int64_t rows, std::int64_t dim, int vectors, int lanes, int group_lanes = 1) {
        const RowForm form{.uniform = true, .bias = false, .residual = false, .fp8 = false};
        const RowPlan plan = plan_rows({rows, dim, 2, kOctet, form, group_lanes}, *find_device("h200"));
        EXPECT_EQ(plan, (RowPlan{8, vectors, lanes, 128 / lanes, 1, plan.keep}))
            << dim << ": " << to_string(plan);
    };
    expect(1000000, 64, 2, 4);
    expect(1000000, 72, 4, 4);
    expect(1000000, 96, 4, 4);
    expect(1000000, 128, 4, 4);
    expect(1000000, 256, 4, 8);
    expect(1000000, 1024, 4, 32);
    expect(1000000, 128, 1, 16, 16);  // all that share a scale are neighbours
    expect(1320, 128, 1, 16);
}

// A second output needs room beside what both are made of.
TEST(RowPlan, HoldsLessOfARowOfTwoOutputs) {
    const auto plan = [](std::int64_t dim, int outputs) {
        return plan_rows({8192, dim, 2, kOctet, {.uniform = true, .beside = true}, 1, outputs},
                         *find_device("h200"));
    };
    EXPECT_EQ(plan(4096, 1).vectors, 4);
    EXPECT_EQ(plan(4096, 2).vectors, 2);
    EXPECT_TRUE(plan(4096, 2).beside);
    EXPECT_EQ(plan(12288, 2).vectors, 2);
    EXPECT_TRUE(plan(12296, 1).beside);
    EXPECT_FALSE(plan(12296, 2).uniform);
}

// L2 is to keep what is read where it could not hold what is written for the next kernel.
TEST(RowPlan, KeepsInputInL2WhereOutputWouldNotFit) {
    for (const char* name : {"h200", "a100"}) {
        const DeviceInfo& device = *find_device(name);
        const std::int64_t fit = device.l2_bytes / (4096 * 2);
        const auto plan = [&](std::int64_t rows) {
            return plan_rows({rows, 4096, 2, kOctet, {true}}, device);
        };
        EXPECT_FALSE(plan(fit - 1).keep) << name;
        EXPECT_TRUE(plan(fit + 1).keep) << name;
        EXPECT_EQ(to_string(plan(fit - 1)) + " l2=input", to_string(plan(fit + 1)));
        EXPECT_TRUE(plan_rows({fit + 1, 4096, 2, kOctet, {}}, device).keep) << "of a mixed kernel";
    }
}

TEST(RowPlan, IsRememberedForTheProblemAndTheDevice) {
    RowPlans plans;
    for (int again = 0; again < 2; ++again) {
        for (const char* name : {"h200", "a100"}) {
            const DeviceInfo& device = *find_device(name);
            for (std::int64_t rows = 1; rows < 300; ++rows) {
                const RowProblem problem{rows, 65536, 2, kOctet, {rows % 2 == 0}};
                ASSERT_EQ(plans.find(problem, device), plan_rows(problem, device));
            }
        }
    }
}

// Devices that differ in one number that plans are made from, of which none may be missing from what is remembered.
TEST(RowPlan, IsRememberedForEveryNumberOfTheDevice) {
    RowPlans plans;
    const DeviceInfo& h200 = *find_device("h200");
    const auto expect_its_own = [&](auto DeviceInfo::* number, auto value, const RowProblem& problem) {
        DeviceInfo other = h200;
        other.*number = value;
        plans.find(problem, h200);
        EXPECT_NE(plan_rows(problem, other), plan_rows(problem, h200)) << "the test shows nothing";
        EXPECT_EQ(plans.find(problem, other), plan_rows(problem, other));
    };
    // 128 MiB, which this L2 could hold; and no room for a single block.
    expect_its_own(&DeviceInfo::l2_bytes, long{1} << 30, {16384, 4096, 2, kOctet, {true}});
    expect_its_own(&DeviceInfo::shared_per_sm, 1000, {4096, 4096, 2, kOctet, {true}});
    expect_its_own(&DeviceInfo::sms, 4, {64, 65536, 2, kOctet, {true}});
    expect_its_own(&DeviceInfo::max_cluster, 1, {4, 65536, 2, kOctet, {true}});
    expect_its_own(&DeviceInfo::arch, 80, {4, 65536, 2, kOctet, {true}});
}

// Every row of the workloads of these ops: on an H200 an SM has at least 32 KiB in flight, or the whole
// problem at once.
TEST(RowPlan, KeepsTheMemoryBusyOnAllWorkloads) {
    const DeviceInfo& h200 = *find_device("h200");
    std::ifstream file(WEFT_SOURCE_DIR "/workloads/transformer.csv");
    ASSERT_TRUE(file);
    int seen = 0;
    for (std::string line; std::getline(file, line);) {
        std::stringstream fields(line);
        std::string op, row, model, rows, dim;
        for (std::string* field : {&op, &row, &model, &rows, &dim}) std::getline(fields, *field, ',');
        if (op != "rms_norm" && op != "layer_norm" && op != "softmax") continue;
        ++seen;
        const RowProblem problem{std::stoll(rows), std::stoll(dim), 2, kOctet, {true}};
        expect_valid(problem, h200);
        const RowPlan plan = plan_rows(problem, h200);
        const int resident = detail::resident_blocks(plan, problem, h200);
        const double in_flight = 2.0 * static_cast<double>(problem.dim) * plan.rows / plan.cluster * resident;
        EXPECT_TRUE(plan.blocks(problem.rows) <= std::int64_t{resident} * h200.sms || in_flight >= 32 * 1024)
            << row << ": " << to_string(plan) << " keeps " << in_flight << " bytes in flight";
    }
    EXPECT_GE(seen, 30);
}

}  // namespace
}  // namespace weft
