#include "tests/ladder/forms.h"

#include <cctype>
#include <fstream>
#include <map>

namespace weft::test {

std::vector<std::string> forms_of(const ladder::Rung& rung) {
    const std::string path = "ladder/" + rung.topic() + "/forms.txt";
    std::ifstream file(std::string(WEFT_SOURCE_DIR "/") + path);
    if (!file) file.open(path);  // on another machine, in its checkout
    std::vector<std::string> forms;
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line[0] != '#') forms.push_back(line);
    }
    return forms;
}

std::string with_sizes(const std::string& form, std::int64_t size, Random& random) {
    // Below, at and above what vectors, warps, tiles and blocks hold.
    constexpr std::int64_t kSizes[] = {1,  2,  3,  5,  7,   8,   9,   15,  16,  17,  31,  32, 33,
                                       40, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300};
    std::map<char, std::int64_t> sizes;
    std::string line;
    for (std::size_t i = 0; i < form.size(); ++i) {
        const char c = form[i], before = i == 0 ? ' ' : form[i - 1];
        if (std::isupper(static_cast<unsigned char>(c)) == 0 ||
            (before != '[' && before != ',' && before != '{')) {
            line += c;
            continue;
        }
        const auto [it, fresh] = sizes.try_emplace(c, size);
        if (fresh && size < 0) it->second = random.pick(kSizes);
        line += std::to_string(it->second);
    }
    return line;
}

}  // namespace weft::test
