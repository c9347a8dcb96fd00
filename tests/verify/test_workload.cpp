// Tables: their cells, the lines of a cell, and where the files are.
#include "verify/workload.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "weft/error.h"

namespace weft::test {
namespace {

using testing::ElementsAre;
namespace fs = std::filesystem;

struct Tables : testing::Test {
    Tables() { fs::create_directories(folder); }
    ~Tables() override {
        fs::remove_all(folder);
        ::unsetenv("WEFT_WORKLOADS");
    }
    fs::path write(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name) << text;
        return folder / name;
    }
    std::vector<std::string> cells(const std::string& line) const {
        return read_csv(write("t.csv", line + "\n")).at(0);
    }
    const fs::path folder = fs::path(testing::TempDir()) / "weft_tables";
};

TEST_F(Tables, HaveCellsThatMayBeQuoted) {
    EXPECT_THAT(cells("a,b"), ElementsAre("a", "b"));
    EXPECT_THAT(cells("a,,"), ElementsAre("a", "", ""));
    EXPECT_THAT(cells("\"a,b\",c"), ElementsAre("a,b", "c"));
    EXPECT_THAT(cells("\"a\"\"b\",c"), ElementsAre("a\"b", "c"));
    EXPECT_THAT(cells("\"\",c"), ElementsAre("", "c"));
    EXPECT_THAT(cells("c,\"\""), ElementsAre("c", ""));
    EXPECT_THAT(cells("c,\"a\"\"\""), ElementsAre("c", "a\""));
    EXPECT_THAT(cells("a,b\r"), ElementsAre("a", "b"));
}

TEST_F(Tables, SkipEmptyLinesAndNameBadRows) {
    EXPECT_EQ(read_csv(write("t.csv", "a,b\n\n1,2\n\n\n3,4\n")).size(), 3u);
    const auto message = [&](const std::string& text) {
        try {
            read_csv(write("t.csv", text));
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::io);
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    EXPECT_THAT(message("a,b\n1,2\n3\n"), testing::HasSubstr("t.csv: row 3 has 1 cells, its header 2"));
    EXPECT_THAT(message("\n\n"), testing::HasSubstr("t.csv: is empty"));
    try {
        read_csv(folder / "none.csv");
        ADD_FAILURE() << "read a file that is not there";
    } catch (const Error& e) {
        EXPECT_THAT(e.what(), testing::HasSubstr("none.csv: can't be opened"));
    }
}

TEST_F(Tables, OfWorkloadsHaveTheLinesOfEachCell) {
    const auto rows = read_workload(
        write("w.csv", "case,row,model\n  a b ;c ; ,first,M\n\"d\",second,N\nno space,third,O\n"));
    std::vector<std::string> lines, ids;
    for (const WorkloadRow& row : rows) {
        lines.push_back(row.line);
        ids.push_back(row.id + " " + row.model);
    }
    EXPECT_THAT(lines, ElementsAre("a b", "c", "", "d", "no space"));
    EXPECT_THAT(ids, ElementsAre("w/first M", "w/first M", "w/first M", "w/second N", "w/third O"));
    for (const char* header : {"row,model", "case,model", "case,row"})
        EXPECT_THROW(read_workload(write("w.csv", std::string(header) + "\na,b\n")), Error) << header;
}

TEST_F(Tables, AreThoseOfTheFolderThatIsNamedOrOfTheTree) {
    write("b.csv", "x\n");
    write("a.csv", "x\n");
    write("c.txt", "x\n");
    ::setenv("WEFT_WORKLOADS", folder.c_str(), 1);
    EXPECT_THAT(workload_files(), ElementsAre(folder / "a.csv", folder / "b.csv"));
    ::setenv("WEFT_WORKLOADS", (folder / "none").c_str(), 1);
    EXPECT_TRUE(workload_files().empty());
    ::unsetenv("WEFT_WORKLOADS");
    const auto files = workload_files();
    EXPECT_GT(files.size(), 2u);
    EXPECT_TRUE(std::ranges::is_sorted(files));
    for (const fs::path& file : files) EXPECT_EQ(file.parent_path().filename(), "workloads") << file;
}

}  // namespace
}  // namespace weft::test
