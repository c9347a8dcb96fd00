// Guided fuzzing: it keeps few cases that reach everything, each made small and still a legal call.
#include "verify/guided.h"

#include <gmock/gmock.h>

#include "ops/euler_step/euler_step.h"
#include "sites/reached.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

// Marks three things: a call that writes over its sample, one of eager rounding, and any.
const OpEntry& marking() {
    static const OpEntry kEntry = [] {
        static AnyImplementation plain = find_op("euler_step")->implementations[0].back();
        OpEntry entry = *find_op("euler_step");
        AnyImplementation marks = plain;
        marks.launch = +[](const EulerStep& op, Context& context) {
            sites::reached[1] |= sites::kHere;
            if (op.sample && op.sample.data == op.out.data) sites::reached[2] |= sites::kHere;
            if (op.rounding == Rounding::eager) sites::reached[3] |= sites::kHere;
            plain.launch(&op, context);
        };
        entry.implementations[0] = {marks};
        return entry;
    }();
    return kEntry;
}

TEST(Guided, KeepsFewSmallCasesThatReachEverything) {
    FuzzOptions options;
    options.cases = 80;
    options.seed = 3;
    const GuidedReport report = fuzz_guided(marking(), options, {});
    EXPECT_TRUE(report.failures.empty());
    EXPECT_EQ(report.reached, 3u);
    ASSERT_LE(report.corpus.size(), 2u);
    bool over_sample = false, eager = false;
    for (const Trial& trial : report.corpus) {
        EXPECT_NO_THROW(trial.c.check()) << corpus_line(trial);
        const std::string line = trial.c.line();
        over_sample = over_sample || line.find("out=@sample") != std::string::npos;
        eager = eager || line.find("rounding=eager") != std::string::npos;
        EXPECT_THAT(line, HasSubstr("velocity=")) << "what the op requires";
        EXPECT_THAT(line, testing::ContainsRegex("\\[1(,1)*\\]")) << "as small as it gets";
    }
    EXPECT_TRUE(over_sample && eager);
    options.cases = 0;
    const GuidedReport again = fuzz_guided(marking(), options, report.corpus);
    EXPECT_EQ(again.reached, 3u) << "the corpus alone reaches as much";
}

}  // namespace
}  // namespace weft::test
