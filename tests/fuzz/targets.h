// The fuzz targets: each takes any bytes, and throws anything but weft::Error where it finds a defect.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::fuzz {

using Input = std::span<const std::byte>;

// A file: input that begins with '{' is a header up to the first NUL byte, then data, and gets the length
// that a mutation would break; any other input is the file as it is.
void safetensors(Input input);
// A *.index.json.
void checkpoint_index(Input input);
// A photograph.
void ppm(Input input);
// A case line, against the contracts of all linked ops.
void case_line(Input input);

struct Target {
    const char* name;  // of its folders in corpus/ and regressions/
    void (*run)(Input);
};
inline constexpr Target kTargets[] = {
    {"safetensors", safetensors},
    {"checkpoint_index", checkpoint_index},
    {"ppm", ppm},
    {"case_line", case_line},
};

// What must hold of everything that was accepted.
inline void must(bool holds, const std::string& what) {
    if (!holds) throw std::logic_error(what);
}

inline std::string_view as_text(Input input) {
    return {reinterpret_cast<const char*>(input.data()), input.size()};
}

}  // namespace weft::fuzz
