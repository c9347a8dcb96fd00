// Choices that were timed once and are read ever after. `weft tune` writes them; the library has some of its own; WEFT_PLANS names
// a file to read instead, or none where it is empty.
#pragma once

#include <map>
#include <string>

namespace weft {

// Texts of an implementation's own by a key of its own. A section is what choices hold for: a library's version on a
// card.
class Plans {
   public:
    using Sections = std::map<std::string, std::map<std::string, std::string>>;

    // Null where there is none.
    const std::string* find(const std::string& section, const std::string& key) const;
    void set(const std::string& section, const std::string& key, std::string choice) {
        sections_[section][key] = std::move(choice);
    }

    // What the library was built with: choices for the cards and the versions that they were timed with (ops/*/plans.json).
    static const Plans& shipped();
    // A JSON file. Throw Error(io) with the path and what is wrong there.
    static Plans read(const std::string& path);
    void write(const std::string& path) const;

    friend bool operator==(const Plans&, const Plans&) = default;

   private:
    Sections sections_;
};

}  // namespace weft
