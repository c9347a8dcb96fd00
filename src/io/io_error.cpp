// What the loaders say when a file is not what it should be.
#include "io/io_error.h"

#include <cerrno>
#include <cstring>

namespace weft {

std::string quote(std::string_view text) {
    constexpr std::size_t kLongest = 120;
    std::string out = "'";
    for (const char c : text.substr(0, kLongest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\x{:02x}", byte);
        } else {
            out += c;
        }
    }
    out += text.size() > kLongest ? "...'" : "'";
    return out;
}

std::string shape_text(std::span<const std::int64_t> shape) {
    std::string out = "[";
    for (std::size_t i = 0; i < shape.size(); ++i) {
        if (i > 0) out += ", ";
        out += shape[i] < 0 ? "*" : std::to_string(shape[i]);
    }
    return out + "]";
}

std::string system_error() { return std::strerror(errno); }

}  // namespace weft
