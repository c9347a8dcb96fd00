// What the tool prints, word for word: commands and their output in transcript.txt, as a shell shows them. No other test
// reads these texts as a user does. After a change that is meant, WEFT_RECORD_TRANSCRIPT=1 test_cli
// --gtest_filter='Transcript.*' writes them anew; the difference is what a user will see.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/cli/tool.h"

namespace weft {
namespace {

const std::string kPath = WEFT_SOURCE_DIR "/tests/cli/transcript.txt";
const std::string kPrompt = "$ weft ";

struct Entry {
    std::string command, output;  // the command without the prompt
};

// The words of a command line; '...' holds words together.
std::vector<std::string> words_of(const std::string& command) {
    std::vector<std::string> words;
    std::istringstream in(command);
    std::string word;
    while (in >> word) {
        if (word[0] == '\'') {
            std::string rest;
            while (word.back() != '\'' || word.size() == 1) {
                if (!(in >> rest)) break;
                word += " " + rest;
            }
            word = word.substr(1, word.size() - 2);
        }
        words.push_back(word);
    }
    return words;
}

std::vector<Entry> entries() {
    std::ifstream in(kPath);
    std::vector<Entry> found;
    for (std::string line; std::getline(in, line);) {
        if (line.rfind(kPrompt, 0) == 0) {
            found.push_back({line.substr(kPrompt.size()), ""});
        } else if (!found.empty()) {
            found.back().output += line + "\n";
        }
    }
    return found;
}

// Without what differs from build to build: what it says of CUDA's list of kernels.
std::string settled(const std::string& text) {
    std::string out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        line = std::regex_replace(line, std::regex(R"( \(this build has no CUDA kernels.*\)$)"), "");
        if (line.rfind("  cuda  ", 0) == 0) continue;
        out += line + "\n";
    }
    return out;
}

std::string printed(const std::string& command) {
    const test::Result r = test::weft(words_of(command));
    std::string text = settled(r.out) + settled(r.error);
    if (r.code != 0) text += "[exit code " + std::to_string(r.code) + "]\n";
    return text;
}

TEST(Transcript, SaysWhatItSaid) {
    const std::vector<Entry> told = entries();
    ASSERT_GE(told.size(), 40u) << kPath;
    if (std::getenv("WEFT_RECORD_TRANSCRIPT") != nullptr) {
        std::ostringstream text;
        for (const Entry& entry : told) text << kPrompt << entry.command << "\n" << printed(entry.command);
        std::ofstream(kPath) << text.str();
        GTEST_SKIP() << "recorded";
    }
    for (const Entry& entry : told)
        EXPECT_EQ(printed(entry.command), entry.output) << kPrompt << entry.command;
}

}  // namespace
}  // namespace weft
