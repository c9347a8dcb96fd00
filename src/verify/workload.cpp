// Reading workload tables.
#include "verify/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "weft/error.h"

namespace weft {
namespace {

std::vector<std::string> split_csv_line(const std::string& line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
            cells.back() += line[++i];
        } else if (c == '"') {
            quoted = !quoted;
        } else if (c == ',' && !quoted) {
            cells.emplace_back();
        } else if (c != '\r') {
            cells.back() += c;
        }
    }
    return cells;
}

std::string trim(std::string_view text) {
    const auto begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(' ') - begin + 1));
}

std::size_t column(const std::vector<std::string>& header, const std::string& name, const std::string& path) {
    const auto it = std::find(header.begin(), header.end(), name);
    if (it == header.end())
        throw Error(ErrorCode::io, "", "", fmt::format("{}: no column '{}' in its header", path, name));
    return static_cast<std::size_t>(it - header.begin());
}

}  // namespace

std::vector<std::vector<std::string>> read_csv(const std::filesystem::path& path) {
    std::ifstream in(path);
    if (!in) throw Error(ErrorCode::io, "", "", fmt::format("{}: can't be opened", path.string()));
    std::vector<std::vector<std::string>> table;
    for (std::string line; std::getline(in, line);) {
        if (line.empty()) continue;
        table.push_back(split_csv_line(line));
        if (table.back().size() != table.front().size()) {
            throw Error(ErrorCode::io, "", "",
                        fmt::format("{}: row {} has {} cells, its header {}", path.string(), table.size(),
                                    table.back().size(), table.front().size()));
        }
    }
    if (table.empty()) throw Error(ErrorCode::io, "", "", fmt::format("{}: is empty", path.string()));
    return table;
}

std::vector<WorkloadRow> read_workload(const std::filesystem::path& path) {
    const auto table = read_csv(path);
    const std::size_t row = column(table[0], "row", path.string()),
                      model = column(table[0], "model", path.string()),
                      lines = column(table[0], "case", path.string());
    std::vector<WorkloadRow> rows;
    for (std::size_t i = 1; i < table.size(); ++i) {
        const std::string& cell = table[i][lines];
        for (std::size_t at = 0; at <= cell.size();) {
            const std::size_t end = std::min(cell.find(';', at), cell.size());
            rows.push_back({path.stem().string() + "/" + table[i][row], table[i][model],
                            trim(std::string_view(cell).substr(at, end - at))});
            at = end + 1;
        }
    }
    return rows;
}

std::vector<std::filesystem::path> workload_files() {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::path tool = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    std::vector<fs::path> folders = {tool / "../../workloads", tool / "../share/weft/workloads", "workloads"};
    if (const char* set = std::getenv("WEFT_WORKLOADS")) folders = {set};
    for (const fs::path& folder : folders) {
        std::vector<fs::path> files;
        for (const auto& entry : fs::directory_iterator(folder, ignored)) {
            if (entry.path().extension() == ".csv") files.push_back(entry.path().lexically_normal());
        }
        std::sort(files.begin(), files.end());
        if (!files.empty()) return files;
    }
    return {};
}

}  // namespace weft
