// A progress bar on stderr, on terminals only.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace weft::cli {

class Progress {
   public:
    Progress(std::string what, std::int64_t total)
        : what_(std::move(what)), total_(total), shown_(isatty(STDERR_FILENO) != 0 && total > 1) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void at(std::int64_t done) {
        const auto now = std::chrono::steady_clock::now();
        if (!shown_ || (now - last_ < std::chrono::milliseconds(80) && done < total_)) return;
        last_ = now;
        constexpr int kWidth = 28;
        const int full = static_cast<int>(kWidth * done / total_);
        const double seconds = std::chrono::duration<double>(now - start_).count();
        fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{}  {:.0f} s \x1b[K", what_, "", full, "", kWidth - full,
                   done, total_, seconds);
        visible_ = true;
    }
    // Removes the bar, so that something can be printed.
    void clear() {
        if (visible_) fmt::print(stderr, "\r\x1b[K");
        visible_ = false;
    }

   private:
    std::string what_;
    std::int64_t total_;
    bool shown_, visible_ = false;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_{};
};

}  // namespace weft::cli
