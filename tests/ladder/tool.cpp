// The ladder from the command line.
#include <fstream>
#include <set>

#include "tests/cli/tool.h"

namespace weft {
namespace {

using test::json;
using test::Result;
using test::weft;
using testing::HasSubstr;
using testing::Not;

const std::string kSafe = "ladder/softmax/03_safe_f32", kNaive = "ladder/softmax/01_naive_f32";
const std::string kCase = "softmax x=fp32[3,33] out=fp32[3,33]";

TEST(LadderTool, ListsTopicsRungsAndLessons) {
    EXPECT_THAT(weft({"ladder"}).out, HasSubstr("softmax"));
    const Result topic = weft({"ladder", "softmax"});
    EXPECT_THAT(topic.out, HasSubstr(kSafe));
    EXPECT_THAT(topic.out, HasSubstr("wrong on purpose"));
    EXPECT_THAT(topic.out, Not(HasSubstr("ladder/reduce")));
    EXPECT_THAT(weft({"ladder", kSafe}).out,
                testing::StartsWith("Softmax with the largest logit subtracted.\n\nIdea"));
    const auto rows = json({"ladder", "softmax", "--json"});
    EXPECT_EQ(rows.at(0).at("rung"), kNaive);
    EXPECT_THAT(rows.at(0).at("Wrong").get<std::string>(), HasSubstr("--values wide"));
}

TEST(LadderTool, PrintsLayoutsOfTheKernelsOwnCode) {
    const Result banks = weft({"ladder", "--layout", "banks"});
    EXPECT_EQ(banks.code, 0) << banks.error;
    // Row 3 of a swizzled tile has its chunk 0 at place 3, which begins in bank 12.
    EXPECT_THAT(banks.out, HasSubstr("plain,3,0,384,0\n"));
    EXPECT_THAT(banks.out, HasSubstr("padded,3,0,432,12\n"));
    EXPECT_THAT(banks.out, HasSubstr("swizzled,3,0,432,12\n"));
    const Result fragments = weft({"ladder", "--layout", "fragments"});
    EXPECT_THAT(fragments.out, HasSubstr("A,9,4,6,2\n"));  // the second register: eight rows below the first
    EXPECT_THAT(fragments.out, HasSubstr("C,1,0,4,0\n"));
    const Result ring = weft({"ladder", "--layout", "ring"});
    EXPECT_THAT(ring.out, HasSubstr("2,bring,2,2\n3,bring,3,3\n4,use,0,0\n5,bring,4,0\n"));
    const Result unknown = weft({"ladder", "--layout", "rings"});
    EXPECT_EQ(unknown.code, 2);
    EXPECT_THAT(unknown.error, HasSubstr("did you mean ring?"));
}

TEST(LadderTool, SuggestsForAWrongWord) {
    const Result topic = weft({"ladder", "softmx"}), rung = weft({"ladder", "ladder/softmax/03_safe"});
    EXPECT_EQ(topic.code, 2);
    EXPECT_THAT(topic.error, HasSubstr("did you mean softmax?"));
    EXPECT_EQ(rung.code, 2);
    EXPECT_THAT(rung.error, HasSubstr(kSafe));
}

TEST(LadderTool, VerifiesFuzzesAndExplainsARung) {
    const Result one = weft({"verify", kCase, "--implementation", kSafe, "--device", "emulator"});
    EXPECT_EQ(one.code, 0) << one.error;
    EXPECT_THAT(one.out, HasSubstr("by " + kSafe));
    EXPECT_EQ(
        weft({"verify", kCase, "--implementation", kNaive, "--device", "emulator", "--values", "wide"}).code,
        1);
    // No op: the rung's.
    const Result drawn = weft({"verify", "--implementation", kSafe, "--device", "emulator", "--cases", "3"});
    EXPECT_EQ(drawn.code, 0) << drawn.out << drawn.error;
    EXPECT_THAT(drawn.out, HasSubstr("cases passed"));
    const Result fuzzed =
        weft({"fuzz", "softmax", "--implementation", kSafe, "--device", "emulator", "--cases", "3"});
    EXPECT_THAT(fuzzed.out, HasSubstr(kSafe + " 3"));
    const Result said = weft({"explain", kCase, "--implementation", kSafe, "--device", "h200"});
    EXPECT_EQ(said.code, 0) << said.error;
    EXPECT_THAT(said.out, HasSubstr(kSafe));
    EXPECT_THAT(weft({"explain", kCase, "--device", "h200"}).out, Not(HasSubstr("ladder/")));
}

// Its offsets into a tile's rows of A are of 32 bits.
TEST(LadderTool, SaysThatRowsAreTooLong) {
    const auto said = [](const std::string& k) {
        return weft({"explain", "gemm a=fp32[1," + k + "] b=fp32[4," + k + "]{1,4} out=fp32[1,4]",
                     "--implementation", "ladder/sgemm/10_register_banks_f32x4", "--device", "h200"})
            .out;
    };
    EXPECT_THAT(said("33554433"), HasSubstr("takes rows of at most 2^25 elements"));
    EXPECT_THAT(said("33554432"), Not(HasSubstr("takes rows of at most")));
}

TEST(LadderTool, MeasuresATopicBesideTheOp) {
    const std::string path = testing::TempDir() + "shapes.csv",
                      line = "rope x=fp32[1,1,2] out=fp32[1,1,2] pairs=interleaved";
    std::ofstream(path) << "topic,case\nsoftmax,\"" << kCase << "\"\nrope,\"" << line << "\"\n";
    const auto rows = json({"bench", "--ladder", "rope", "--workload", path, "--device", "emulator",
                            "--rounds", "1", "--against", "none", "--json"})
                          .at("rows");
    std::set<std::string> sides;
    for (const auto& row : rows) {
        EXPECT_EQ(row.at("workload"), "ladder/rope");
        const std::string name = row.at("name");
        if (row.at("side") == "baseline") {
            EXPECT_THAT(name, testing::StartsWith("ladder/rope/"));
        }
        sides.insert(row.at("side"));
    }
    EXPECT_THAT(sides, testing::IsSupersetOf({"weft", "baseline"}));
    EXPECT_EQ(weft({"bench", "--ladder", "rop", "--workload", path, "--device", "emulator"}).code, 2);
}

TEST(LadderTool, RefusesAnotherOp) {
    const Result r = weft({"verify", "reduce", "--implementation", kSafe});
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.error, HasSubstr("is a rung of softmax, and of no other op"));
}

}  // namespace
}  // namespace weft
