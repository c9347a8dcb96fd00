// Spans of written bytes; comparing and hashing in pieces that threads share.
#include "verify/written.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "verify/parallel.h"
#include "verify/random.h"

namespace weft {
namespace {

constexpr std::int64_t kPiece = std::int64_t{16} << 20;

struct Piece {
    Span span;
    bool written = false;
    std::int64_t changed = -1;
    std::size_t hash = 0;
};

void add(std::vector<Piece>& pieces, Span span, bool written) {
    for (std::int64_t at = span.begin; at < span.end; at += kPiece)
        pieces.push_back({{at, std::min(span.end, at + kPiece)}, written});
}

}  // namespace

std::vector<Span> written_spans(const Instance& instance, std::size_t owner) {
    const Case& c = instance.source();
    std::vector<Span> spans;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const TensorSpec& spec = c.tensors[i];
        const bool here = i == owner || spec.alias == static_cast<int>(owner);
        if (!spec.present || !here || !c.contract().fields()[i].writes()) continue;
        const auto first = static_cast<std::int64_t>(instance.first_byte(i));
        for_each_run(spec.over(nullptr, kCpu), [&](std::int64_t offset, std::int64_t count) {
            spans.push_back({first + offset * bits(spec.dtype) / 8,
                             first + ((offset + count) * bits(spec.dtype) + 7) / 8});
        });
    }
    std::sort(spans.begin(), spans.end(), [](Span a, Span b) { return a.begin < b.begin; });
    std::vector<Span> merged;
    for (const Span span : spans) {
        if (merged.empty() || span.begin > merged.back().end) {
            merged.push_back(span);
        } else {
            merged.back().end = std::max(merged.back().end, span.end);
        }
    }
    return merged;
}

Examined examine(const std::vector<std::byte>& now, const std::vector<std::byte>& before,
                 const std::vector<Span>& spans, std::size_t threads) {
    std::vector<Piece> pieces;
    std::int64_t at = 0;
    for (const Span span : spans) {
        add(pieces, {at, span.begin}, false);
        add(pieces, span, true);
        at = span.end;
    }
    add(pieces, {at, static_cast<std::int64_t>(now.size())}, false);
    parallel_for(pieces.size(), threads, [&](std::size_t n) {
        Piece& piece = pieces[n];
        const auto [begin, end] = piece.span;
        if (piece.written) {
            const auto* bytes = reinterpret_cast<const char*>(now.data()) + begin;
            piece.hash = std::hash<std::string_view>{}({bytes, static_cast<std::size_t>(end - begin)});
        } else if (const auto differs =
                       std::mismatch(now.begin() + begin, now.begin() + end, before.begin() + begin).first;
                   differs != now.begin() + end) {
            piece.changed = differs - now.begin();
        }
    });
    Examined memory;
    for (const Piece& piece : pieces) {
        if (piece.written) memory.hash = static_cast<std::size_t>(mix(memory.hash ^ piece.hash));
        if (memory.changed < 0) memory.changed = piece.changed;
    }
    return memory;
}

}  // namespace weft
