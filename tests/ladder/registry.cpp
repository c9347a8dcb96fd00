// What the ladder is to the library: nothing that dispatch knows.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <set>

#include "core/ladder.h"
#include "verify/fuzz.h"
#include "verify/workload.h"

namespace weft {
namespace {

std::set<std::string> files() {
    std::set<std::string> found;
    const std::filesystem::path root = WEFT_SOURCE_DIR;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "ladder")) {
        const bool of_topic = entry.path().parent_path() != root / "ladder";
        if (!of_topic || entry.path().extension() != ".cu") continue;
        found.insert(std::filesystem::relative(entry.path(), root).replace_extension().string());
    }
    return found;
}

TEST(Ladder, HasARungForEachFile) {
    std::set<std::string> names;
    for (const ladder::Rung* rung : ladder::rungs()) names.insert(rung->name);
    EXPECT_EQ(names, files());
    EXPECT_FALSE(names.empty());
}

TEST(Ladder, IsNotWhatDispatchChoosesFrom) {
    for (const OpEntry* op : all_ops()) {
        for (const auto& list : op->implementations) {
            for (const AnyImplementation& i : list) EXPECT_FALSE(i.name.starts_with("ladder/")) << i.name;
        }
    }
}

TEST(Ladder, AnEntryIsTheOpsOwnButForItsImplementation) {
    for (const ladder::Rung* rung : ladder::rungs()) {
        const OpEntry* op = find_op(rung->entry.contract().name());
        ASSERT_NE(op, nullptr);
        EXPECT_EQ(&op->contract(), &rung->entry.contract());
        const auto& own = rung->entry.implementations[static_cast<int>(DeviceType::emulator)];
        ASSERT_EQ(own.size(), 1U);
        EXPECT_EQ(own.front().name, rung->name);
    }
}

// An option that is younger than a rung would else be passed over in silence.
TEST(Ladder, RungsRefuseTensorsThatTheyDoNotName) {
    const auto takers = [](const std::string& line) {
        std::vector<std::string> found;
        const Case c = Case::parse(line);
        c.with_call(kEmulator, [&](const void* call) {
            for (const ladder::Rung* rung : ladder::rungs()) {
                if (rung->entry.contract().name() != c.contract().name()) continue;
                if (explain(rung->entry, call, device_info(kEmulator)).front().reason.empty())
                    found.push_back(rung->name);
            }
        });
        return found;
    };
    const std::string attention = "attention q=fp16[1,64,2,64] k=fp16[1,64,2,64] v=fp16[1,64,2,64] ";
    EXPECT_FALSE(takers(attention + "out=fp16[1,64,2,64]").empty());
    EXPECT_THAT(takers(attention + "cu_seqlens_q=int32[3] cu_seqlens_k=int32[3] out=fp16[1,64,2,64]"),
                testing::IsEmpty());
}

// What weft bench --ladder measures: every topic has a case of its op.
TEST(Ladder, HasShapesForEachTopic) {
    std::map<std::string, std::string> ops;
    for (const ladder::Rung* rung : ladder::rungs()) ops[rung->topic()] = rung->entry.contract().name();
    std::set<std::string> measured;
    const auto table = read_csv(WEFT_SOURCE_DIR "/ladder/shapes.csv");
    for (std::size_t i = 1; i < table.size(); ++i) {
        const std::string topic = table[i].at(0);
        EXPECT_EQ(Case::parse(table[i].at(1)).contract().name(), ops[topic]) << topic;
        measured.insert(topic);
    }
    for (const auto& [topic, op] : ops) EXPECT_TRUE(measured.contains(topic)) << topic;
}

TEST(Ladder, ALessonIsReadInParts) {
    const ladder::Rung rung{
        "ladder/topic/01_name", "A title.\n\nIdea    One\n\n        two.\n\nChange  Three.\n", {}};
    EXPECT_EQ(rung.topic(), "topic");
    EXPECT_EQ(rung.title(), "A title.");
    EXPECT_EQ(rung.part("Idea"), "One two.");
    EXPECT_EQ(rung.part("Change"), "Three.");
    EXPECT_EQ(rung.part("Wrong"), "");
}

}  // namespace
}  // namespace weft
