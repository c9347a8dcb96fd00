// The names that collections of kernels for learning have: each has a rung here, or the reason why it has none.
#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "core/ladder.h"
#include "verify/workload.h"

namespace weft {
namespace {

struct Row {
    std::string family, name, rungs, note;
};

std::vector<Row> rows() {
    std::vector<Row> found;
    const auto table = read_csv(WEFT_SOURCE_DIR "/ladder/names.csv");
    for (std::size_t i = 1; i < table.size(); ++i)
        found.push_back({table[i].at(0), table[i].at(1), table[i].at(2), table[i].at(3)});
    return found;
}

TEST(Names, EachHasARungOrAReason) {
    for (const Row& row : rows()) {
        EXPECT_FALSE(row.rungs.empty() && row.note.empty()) << row.name;
        std::istringstream words(row.rungs);
        for (std::string rung; words >> rung;) {
            const ladder::Rung* found = ladder::find(rung);
            ASSERT_NE(found, nullptr) << row.name << ": " << rung;
            const bool says_so = row.note.find("wrong on purpose") != std::string::npos;
            EXPECT_EQ(!found->part("Wrong").empty(), says_so) << row.name;
        }
    }
}

TEST(Names, AreAllThere) {
    std::set<std::pair<std::string, std::string>> names;
    for (const Row& row : rows()) EXPECT_TRUE(names.emplace(row.family, row.name).second) << row.name;
    EXPECT_EQ(names.size(), 223U);  // of the collection, its product library and its attention library
}

}  // namespace
}  // namespace weft
