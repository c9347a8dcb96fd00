// Which parts of a long call are evaluated and compared, on how many threads, with what of its operands.
#include <gmock/gmock.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "tests/verify/judged.h"
#include "verify/verify.h"

namespace weft::test {
namespace {

using testing::ElementsAre;

using LongCalls = ComparisonTest;

// How many rows each evaluation of the reference was given.
std::vector<std::int64_t> evaluated(const Case& c, const ReferenceLimits& limits,
                                    std::string* sampled = nullptr) {
    static std::mutex mutex;
    static std::vector<std::int64_t> rows;
    rows.clear();
    Judged::says = [](const Judged& op, Oracle& oracle) {
        for_each_offset(op.out, [&](std::int64_t i) { oracle.store(op.out, i, 0); });
        const std::scoped_lock lock(mutex);
        rows.push_back(op.x.numel() / op.x.dim(-1));
    };
    const Reference reference(Instance(c, kCpu, 3, Values::usual), limits);
    if (sampled != nullptr) *sampled = reference.sampled();
    std::sort(rows.begin(), rows.end());
    return rows;
}

std::string sampled(const char* line, const ReferenceLimits& limits) {
    std::string text;
    const Case c = Case::parse(line);
    const auto parts = static_cast<std::ptrdiff_t>(evaluated(c, limits, &text).size());
    if (text.find(" parts") != std::string::npos) {
        EXPECT_EQ(parts, std::stol(text)) << text;
    }
    return text;
}

// 1600 elements at 60 operations each.
TEST_F(LongCalls, SamplesCallsThatAreLongerThanTheBudget) {
    const char* line = "judged x=fp32[100,8]";
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 96'000}), "");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 95'999}), "49 parts (2 of 100 ...)");
    EXPECT_EQ(sampled(line, {.threads = 2, .operations = 48'000}), "");
    EXPECT_EQ(sampled(line, {.threads = 2, .operations = 47'999}), "49 parts (2 of 100 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .elements = 1600}), "");
    EXPECT_EQ(sampled(line, {.threads = 1, .elements = 1599}), "49 parts (2 of 100 ...)");
    EXPECT_EQ(sampled("judged x=fp32[100,8] out=@x", {.threads = 1, .operations = 48'000}), "") << "once";
    EXPECT_EQ(sampled("judged x=fp32[100,8] out=@x", {.threads = 1, .operations = 47'999}),
              "49 parts (2 of 100 ...)");
    Judged::flops_of_a_call = 1;
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 96'000}), "49 parts (2 of 100 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 96'001}), "");
}

TEST_F(LongCalls, MakesPartsAsLongAsEnoughOfThemAreAffordable) {
    const char* line = "judged x=fp32[10000,8]";
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 46'080}), "48 parts (1 of 10000 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 92'159}), "95 parts (1 of 10000 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 92'160}), "48 parts (2 of 10000 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 2'000'000}), "130 parts (16 of 10000 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .elements = 48 * 32}), "48 parts (2 of 10000 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .elements = 48 * 32 - 1}), "95 parts (1 of 10000 ...)");
    EXPECT_EQ(sampled("judged x=fp32[10000,8]", {.threads = 1, .elements = 150'000}),
              "585 parts (16 of 10000 ...)");
    EXPECT_EQ(sampled("judged x=fp32[40000,8]", {.threads = 1, .elements = 639'999}),
              "2048 parts (16 of 40000 ...)");
    EXPECT_EQ(sampled("judged x=fp32[2,2000,8]", {.threads = 1, .operations = 48 * 960 * 4}),
              "48 parts (2 of 2 ... x 2 of 2000 ...)");
    EXPECT_EQ(sampled("judged x=fp32[3,2000,8]", {.threads = 1, .operations = 48 * 960 * 8}),
              "48 parts (2 of 3 ... x 4 of 2000 ...)");
}

TEST_F(LongCalls, LeavesOutRowsWhereEvenEightPartsAreTooLong) {
    const char* line = "judged x=fp32[100,8]";
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 7680}), "8 parts (1 of 100 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 4000}), "8 parts (1 of 100 ...)");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 3840}), "8 parts (1 of 100 ...), one row in 2");
    EXPECT_EQ(sampled(line, {.threads = 1, .operations = 1000}), "8 parts (1 of 100 ...), one row in 7");
    EXPECT_EQ(sampled("judged x=fp32[1,800]", {.threads = 1, .operations = 1000}),
              "the whole call, one row in 96");
    EXPECT_EQ(sampled("judged x=fp32[1,800]", {.threads = 1, .operations = 95'999}), "the whole call");
}

// Half a second of one thread each, four for each thread.
TEST_F(LongCalls, CutsWholeCallsAlongTheirLongestAxisSoThatThreadsShareThem) {
    const auto cut = [](const char* line, double flops, std::size_t threads) {
        Judged::flops_of_a_call = flops;
        return evaluated(Case::parse(line), {.threads = threads, .operations = 1e12});
    };
    EXPECT_THAT(cut("judged x=fp32[3,100,8]", 0, 2), ElementsAre(300));
    EXPECT_THAT(cut("judged x=fp32[3,100,8]", 4e7, 2), ElementsAre(150, 150));
    EXPECT_THAT(cut("judged x=fp32[3,100,8]", 6e7 - 1e6, 2), ElementsAre(150, 150));
    EXPECT_THAT(cut("judged x=fp32[3,100,8]", 6e7, 2), ElementsAre(99, 99, 102));
    EXPECT_THAT(cut("judged x=fp32[3,100,8]", 1e12 - 1e6, 1), ElementsAre(75, 75, 75, 75));
    EXPECT_THAT(cut("judged x=fp32[100,3,8]", 1e12, 2), ElementsAre(36, 36, 36, 36, 39, 39, 39, 39));
    EXPECT_THAT(cut("judged x=fp32[5,8]", 1e12, 2), ElementsAre(1, 1, 1, 1, 1));
    EXPECT_THAT(cut("judged x=fp32[1,8]", 1e12, 2), ElementsAre(1));
}

TEST_F(LongCalls, EvaluatesPartsOnAsManyThreadsAsItIsGiven) {
    static std::mutex mutex;
    static std::condition_variable arrived;
    static std::set<std::thread::id> ids;
    static std::size_t expected;
    const auto threads_of = [](std::size_t threads) {
        ids.clear();
        expected = threads;
        // Nobody ends a part before all threads have one: on a busy machine some begin late.
        Judged::says = [](const Judged& op, Oracle& oracle) {
            for_each_offset(op.out, [&](std::int64_t i) { oracle.store(op.out, i, 0); });
            std::unique_lock lock(mutex);
            ids.insert(std::this_thread::get_id());
            arrived.notify_all();
            arrived.wait_for(lock, std::chrono::seconds(5), [] { return ids.size() >= expected; });
        };
        Judged::flops_of_a_call = 1e9;
        const Case c = Case::parse("judged x=fp32[100,8]");
        const Reference reference(Instance(c, kCpu, 3, Values::usual),
                                  {.threads = threads, .operations = 1e12});
        return ids.size();
    };
    EXPECT_EQ(threads_of(1), 1u);
    EXPECT_EQ(threads_of(2), 2u);
    EXPECT_EQ(threads_of(3), 3u);
}

TEST_F(LongCalls, HandsOnWhatTheReferenceThrows) {
    for (const std::size_t threads : {1, 3}) {
        Judged::says = [](const Judged&, Oracle&) {
            throw Error(ErrorCode::internal, "", "", "no such axis");
        };
        Judged::flops_of_a_call = 1e9;
        const Instance operands(Case::parse("judged x=fp32[100,8]"), kCpu, 3, Values::usual);
        EXPECT_THROW(Reference(operands, {.threads = threads, .operations = 1e12}), Error);
    }
}

// Which rows of 100 are compared: those in which a wrong element shows.
std::set<std::int64_t> compared(std::uint64_t seed) {
    const Case c = Case::parse("judged x=fp32[100,8]");
    const Instance operands(c, kCpu, 3, Values::usual), result(c, kCpu, 3, Values::usual);
    Context context(kCpu);
    result.run(context);
    Reference reference(operands, {.threads = 1, .operations = 20'000}, seed);  // 20 parts of a row
    EXPECT_TRUE(reference.compare(result).passed);
    std::set<std::int64_t> rows;
    float* const out = static_cast<const Judged*>(result.call())->out.as<float>();
    for (std::int64_t row = 0; row < 100; ++row) {
        out[row * 8 + 3] = 1;
        if (!reference.compare(result).passed) rows.insert(row);
        out[row * 8 + 3] = 0;
    }
    return rows;
}

TEST_F(LongCalls, TakesTheFirstTheLastAndRandomParts) {
    std::set<std::int64_t> all;
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        const std::set<std::int64_t> rows = compared(seed);
        EXPECT_TRUE(rows.contains(0) && rows.contains(99));
        EXPECT_GE(rows.size(), 10u);
        EXPECT_LE(rows.size(), 20u);
        all.insert(rows.begin(), rows.end());
    }
    EXPECT_GT(all.size(), 95u) << "another seed compares other rows";
    EXPECT_EQ(compared(7), compared(7));
}

TEST_F(LongCalls, GivesThePartsTheirShareOfEveryOperand) {
    // out = x, in any strides; a table and what is kept come along.
    Judged::says = [](const Judged& op, Oracle& oracle) {
        std::vector<double> x;
        for_each_offset(op.x, [&](std::int64_t i) { x.push_back(load_element(op.x.dtype, op.x.data, i)); });
        std::size_t next = 0;
        const double first =
            op.table ? load_element(op.table.dtype, op.table.data, 4 * op.table.stride[0]) : 0;
        std::vector<double> packed(x.size());
        for (std::size_t i = 0; op.packed && i < x.size(); ++i)
            packed[i] = load_element(DType::fp4_e2m1, op.packed.data, static_cast<std::int64_t>(i));
        for_each_offset(op.out, [&](std::int64_t i) {
            oracle.store(op.out, i, x[next] + first + packed[next]);
            ++next;
        });
        if (!op.kept) return;
        for_each_offset(op.kept, [&](std::int64_t i) {
            oracle.store(op.kept, i, 2 * load_element(DType::fp32, op.kept.data, i));
        });
    };
    Judged::does = [](const Judged& op) {
        Oracle plain;
        Judged::says(op, plain);
    };
    for (const char* line :
         {"judged x=fp32[40,8]", "judged x=bf16[40,8]+3 out=fp32", "judged x=fp32[40,8]{1,50}",
          "judged x=fp32[5,8,8]{80,9,1} out=fp32[5,8,8]{8,40,1}",
          "judged x=fp32[40,8] table=bf16[5]+1 kept=fp32[40,8]", "judged x=fp32[40,8]{0,1} table=fp32[5]",
          "judged x=fp32[40,8] packed=fp4_e2m1[40,8]",
          "judged x=fp32[5,1,8] packed=fp4_e2m1[5,1,8] out=@x"}) {
        const Case c = Case::parse(line);
        for (const double operations : {1e9, 5000.0}) {
            const Instance operands(c, kCpu, 3, Values::usual), result(c, kCpu, 3, Values::usual);
            Context context(kCpu);
            result.run(context);
            Judged::flops_of_a_call = operations == 1e9 ? 9e8 : 0;  // several parts, or a sample
            Reference reference(operands, {.threads = 3, .operations = operations});
            const Outcome outcome = reference.compare(result);
            EXPECT_TRUE(outcome.passed) << line << "\n" << outcome.why;
        }
    }
}

}  // namespace
}  // namespace weft::test
