// weft task: handed over to Python, where users' kernels of every language meet.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/command.h"

namespace weft::cli {
namespace {

namespace fs = std::filesystem;

// The checkout that this tool was built in, if it is in one: its Python package is used before an installed one.
fs::path checkout() {
    if (const char* root = std::getenv("WEFT_ROOT")) return root;
    std::error_code ignored;
    const fs::path tool = fs::read_symlink("/proc/self/exe", ignored);
    const fs::path root = tool.parent_path().parent_path().parent_path();
    return fs::exists(root / "python" / "weft" / "task", ignored) ? root : fs::path();
}

// $WEFT_PYTHON, the checkout's environment, or the python3 of the path.
std::string interpreter(const fs::path& root) {
    if (const char* given = std::getenv("WEFT_PYTHON")) return given;
    const fs::path own = root / ".weft" / "venv" / "bin" / "python";
    std::error_code ignored;
    return !root.empty() && fs::exists(own, ignored) ? own.string() : "python3";
}

[[noreturn]] void start_python(const std::vector<std::string>& words) {
    const fs::path root = checkout();
    if (!root.empty()) {
        const char* before = std::getenv("PYTHONPATH");
        const std::string path =
            (root / "python").string() + (before != nullptr ? ":" + std::string(before) : "");
        setenv("PYTHONPATH", path.c_str(), 1);
    }
    const std::string python = interpreter(root);
    std::vector<std::string> all = {python, "-m", "weft.task"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execvp(python.c_str(), arguments.data());
    throw Failure(kUnsupported,
                  fmt::format("{} can't be started ({}): weft task needs Python with weft's package "
                              "(WEFT_PYTHON names another)",
                              python, std::strerror(errno)));
}

}  // namespace

Command task_command() {
    return {"task", "Compare a kernel of your own with a real baseline, under rules that commands check",
            "weft task --help lists its commands; docs/task.md goes through one from nothing to a result.\n",
            [](CommandLine& line) {
                const auto words = std::make_shared<std::vector<std::string>>();
                line.hand_over(*words);
                return [words]() -> int { start_python(*words); };
            }};
}

}  // namespace weft::cli
