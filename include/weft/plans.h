// Choices that were timed once and are read ever after: `weft tune` writes them, WEFT_PLANS names their file.
#pragma once

#include <map>
#include <string>

namespace weft {

// Texts of an implementation's own by a key of its own. A section is what choices hold for: a library's version on a
// card.
class Plans {
   public:
    // Null where there is none.
    const std::string* find(const std::string& section, const std::string& key) const;
    void set(const std::string& section, const std::string& key, std::string choice) {
        sections_[section][key] = std::move(choice);
    }

    // A JSON file. Throw Error(io) with the path and what is wrong there.
    static Plans read(const std::string& path);
    void write(const std::string& path) const;

   private:
    std::map<std::string, std::map<std::string, std::string>> sections_;
};

}  // namespace weft
