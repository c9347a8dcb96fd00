// What the loaders say when a file is not what it should be.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weft/error.h"

namespace weft {

template <class... Args>
[[noreturn]] void fail_io(fmt::format_string<Args...> format, Args&&... args) {
    throw Error(ErrorCode::io, "", "", fmt::format(format, std::forward<Args>(args)...));
}

// Text from a file made fit to print: quoted, control characters as \xNN, cut where it is very long.
std::string quote(std::string_view text);

// "[2, 3]"; kAnySize prints as "*".
std::string shape_text(std::span<const std::int64_t> shape);

// The system's words for errno.
std::string system_error();

}  // namespace weft
