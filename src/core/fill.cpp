// The rules of inputs' elements: in words, whether values for them exist, and what breaks them.
#include "weft/fill.h"

#include <fmt/format.h>

#include <unordered_map>

#include "core/elements.h"

namespace weft {
namespace {

// Takes elements in order and keeps what the first one that breaks the rule came to.
class Reader {
   public:
    Reader(const Fill& fill, std::int64_t limit) : fill_(fill), limit_(limit) {}

    void take(std::int64_t value) {
        const bool none = fill_.or_none && value == -1;
        switch (fill_.kind) {
            case Fill::Kind::positions:
            case Fill::Kind::index: check(none || (value >= 0 && value < limit_), value); break;
            case Fill::Kind::count: check(value >= 0 && value <= limit_, value); break;
            case Fill::Kind::parts:
                check(value >= 0 && value <= limit_ - total_, value);
                if (got_.empty()) total_ += value;
                break;
            case Fill::Kind::offsets:
                check((at_ == 0 ? value == 0 : value >= total_) && value <= limit_, value);
                total_ = value;
                break;
            case Fill::Kind::ends:
                check(value >= total_ && value <= limit_, value);
                total_ = value;
                break;
            case Fill::Kind::slots:
                check(none || (value >= 0 && value < limit_), value);
                if (const auto [other, fresh] = seen_.emplace(value, at_); !none && !fresh && got_.empty())
                    got_ = fmt::format("{} at {} and at {}", value, other->second, at_);
                break;
            default: break;
        }
        ++at_;
    }

    // Empty where nothing broke the rule.
    std::string got() const {
        const bool adds_up = fill_.kind == Fill::Kind::parts || fill_.kind == Fill::Kind::offsets;
        if (!got_.empty() || !adds_up || total_ == limit_) return got_;
        return fmt::format("{} {}", total_, fill_.kind == Fill::Kind::parts ? "as their sum" : "as the last");
    }

   private:
    void check(bool holds, std::int64_t value) {
        if (!holds && got_.empty()) got_ = fmt::format("{} at {}", value, at_);
    }

    const Fill& fill_;
    const std::int64_t limit_;
    std::int64_t at_ = 0, total_ = 0;  // total: the sum so far, or the offset before
    std::unordered_map<std::int64_t, std::int64_t> seen_;
    std::string got_;
};

std::string rule_with(const Fill& fill, const std::string& bound) {
    const char* or_none = fill.or_none ? ", or -1: none" : "";
    switch (fill.kind) {
        case Fill::Kind::positions:
        case Fill::Kind::index: return fmt::format("numbers in [0, {}){}", bound, or_none);
        case Fill::Kind::count: return fmt::format("numbers in [0, {}]", bound);
        case Fill::Kind::offsets:
            return fmt::format("numbers from 0 to {}, none below the one before", bound);
        case Fill::Kind::ends:
            return fmt::format("numbers from 0 on up to {}, none below the one before", bound);
        case Fill::Kind::slots: return fmt::format("different numbers in [0, {}){}", bound, or_none);
        case Fill::Kind::parts: return fmt::format("numbers from 0 on with the sum {}", bound);
        default: return {};
    }
}

Fill fill_of(Fill::Kind kind, double low, double high) {
    Fill fill;
    fill.kind = kind;
    fill.low = low;
    fill.high = high;
    return fill;
}

Fill fill_within(Fill::Kind kind, std::string_view bound) {
    Fill fill;
    fill.kind = kind;
    fill.bound = bound;
    return fill;
}

}  // namespace

Fill Fill::normal(double mean, double deviation) { return fill_of(Kind::normal, mean, deviation); }
Fill Fill::uniform(double low, double high) { return fill_of(Kind::uniform, low, high); }
Fill Fill::scale(double low, double high) { return fill_of(Kind::scale, low, high); }
Fill Fill::mask() { return fill_of(Kind::mask, 0, 1); }
Fill Fill::positions(double high, std::string_view bound) {
    Fill fill = fill_within(Kind::positions, bound);
    fill.high = high;
    return fill;
}
Fill Fill::index(std::string_view bound) { return fill_within(Kind::index, bound); }
Fill Fill::count(std::string_view bound) { return fill_within(Kind::count, bound); }
Fill Fill::offsets(std::string_view bound) { return fill_within(Kind::offsets, bound); }
Fill Fill::ends(std::string_view bound) { return fill_within(Kind::ends, bound); }
Fill Fill::slots(std::string_view bound) { return fill_within(Kind::slots, bound); }
Fill Fill::parts(std::string_view bound) { return fill_within(Kind::parts, bound); }
Fill Fill::lengths(std::string_view bound) { return fill_within(Kind::lengths, bound); }

std::string Fill::rule() const { return bound.empty() ? "" : rule_with(*this, bound); }

bool Fill::exists(std::int64_t count, std::int64_t limit) const {
    if (limit == kUnknown) return true;
    switch (kind) {
        case Kind::positions:
        case Kind::index: return count == 0 || limit > 0 || or_none;
        case Kind::offsets: return count > 1 || (count == 1 && limit == 0);
        case Kind::slots: return count <= limit || or_none;
        case Kind::parts: return count > 0 || limit == 0;
        default: return true;
    }
}

std::string Fill::breach(const Tensor& tensor, std::int64_t limit) const {
    if (limit == kUnknown) return {};
    Reader reader(*this, limit);
    for_each_offset(tensor, [&](std::int64_t i) { reader.take(load_integer(tensor.dtype, tensor.data, i)); });
    const std::string got = reader.got();
    if (got.empty()) return {};
    return fmt::format("expected {}, got {}", rule_with(*this, fmt::format("{}={}", bound, limit)), got);
}

}  // namespace weft
