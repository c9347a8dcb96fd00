// Workload tables: reading, and every case line of the repository's.
#include "verify/workload.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "weft/case.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::filesystem::path written(const std::string& text) {
    const auto path = std::filesystem::path(testing::TempDir()) / "weft_workload.csv";
    std::ofstream(path) << text;
    return path;
}

std::string message(const std::string& text) {
    try {
        read_workload(written(text));
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::io);
        return e.what();
    }
    return "accepted";
}

TEST(Workloads, QuotesCommasAndSeveralLines) {
    const auto rows = read_workload(
        written("row,model,case\na,\"M, \"\"x\"\"\",\"op x=bf16[1,2]; op x=bf16[3,4]\"\r\n\nb,N,\n"));
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_EQ(rows[0].id, "weft_workload/a");
    EXPECT_EQ(rows[0].model, "M, \"x\"");
    EXPECT_EQ(rows[1].line, "op x=bf16[3,4]");
    EXPECT_EQ(rows[2].line, "");
}

TEST(Workloads, ErrorsNameFileAndRow) {
    EXPECT_THAT(message("row,model\na,b\n"), HasSubstr("weft_workload.csv: no column 'case' in its header"));
    EXPECT_THAT(message("row,model,case\na,b\n"), HasSubstr("row 2 has 2 cells, its header 3"));
    EXPECT_THAT(message(""), HasSubstr("is empty"));
    EXPECT_THROW(read_workload("/nonexistent.csv"), Error);
}

// Which device must take a case without a vendor library: the build's own kernels, by the emulator's list.
bool accepted(const Case& c, const DeviceInfo& device) {
    bool found = false;
    const auto& own = c.op().implementations[static_cast<int>(DeviceType::emulator)];
    c.with_call({DeviceType::cuda, 0}, [&](const void* call) {
        for (const AnyImplementation& i : own) found = found || i.decline(call, device) == nullptr;
    });
    return found || own.empty();
}

TEST(Workloads, EveryCaseLineIsLegalAndTaken) {
    const auto folder = std::filesystem::path(WEFT_SOURCE_DIR) / "workloads";
    int lines = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        if (file.path().extension() != ".csv") continue;
        for (const WorkloadRow& row : read_workload(file.path())) {
            if (row.line.empty()) continue;
            ++lines;
            SCOPED_TRACE(row.id + ": " + row.line);
            ASSERT_NO_THROW({
                const Case c = Case::parse(row.line);
                c.check();
                EXPECT_EQ(Case::parse(c.line()), c);
                EXPECT_TRUE(accepted(c, *find_device("h200")));
            });
        }
    }
    EXPECT_GT(lines, 200);
}

}  // namespace
}  // namespace weft
