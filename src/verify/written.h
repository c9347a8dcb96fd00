// A field's memory as the bytes that outputs take and the others, which no call may change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verify/instance.h"

namespace weft {

struct Span {
    std::int64_t begin = 0, end = 0;  // bytes of a field's memory, guards included
};

// Where the outputs that live in field `owner`'s memory have their elements: in order, and nothing twice.
std::vector<Span> written_spans(const Instance& instance, std::size_t owner);

struct Examined {
    std::int64_t changed = -1;  // the first byte between the spans that is not what it was; -1: none
    std::size_t hash = 0;       // of the bytes in the spans
};
Examined examine(const std::vector<std::byte>& now, const std::vector<std::byte>& before,
                 const std::vector<Span>& spans, std::size_t threads);

}  // namespace weft
