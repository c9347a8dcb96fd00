// The tool in a test's own process: from its command line to its exit code and what it prints.
#pragma once

#include <gmock/gmock.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "core/json_text.h"

namespace weft::test {

struct Result {
    int code;
    std::string out, error;
};

inline Result weft(std::vector<std::string> words) {
    std::vector<const char*> argv = {"weft"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = cli::run_tool(static_cast<int>(argv.size()), argv.data());
    std::cout.flush();
    std::fflush(stdout);
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

inline nlohmann::json json(const std::vector<std::string>& words) {
    const Result r = weft(words);
    const nlohmann::json parsed = parse_json(r.out);
    EXPECT_FALSE(parsed.is_discarded()) << r.out << r.error;
    return parsed;
}

}  // namespace weft::test
