// Drawing the elements of inputs: numbers by distribution, integers by their rule.
#include "verify/draw.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <vector>

#include "core/elements.h"

namespace weft {
namespace {

// Where an element stands: its row, and how far it is along that and along the tensor, from 0 to 1.
struct Place {
    std::int64_t row = 0;
    double in_row = 0, in_tensor = 0;
};

// Halfway between two neighbours of a dtype that an output may be stored in, at magnitudes from 1/4 to 4. Each draw is a
// statement of its own: C++ does not say in which order those of one expression are.
double tie(Random& random) {
    constexpr DType kNarrow[] = {DType::fp8_e4m3, DType::fp8_e5m2, DType::fp4_e2m1, DType::bf16, DType::fp16};
    const DType dtype = random.pick(kNarrow);
    const double sign = random.below(2) == 0 ? 1 : -1;
    const double value = round_to(dtype, sign * std::exp2(random.uniform() * 4 - 2));
    const double next = decode(dtype, encode(dtype, value) + 1);
    return std::isfinite(next) ? (value + next) / 2 : value;
}

double shaped(double value, Values values, const Place& place, std::uint64_t seed, Random& random) {
    const bool plain = mix(seed ^ static_cast<std::uint64_t>(place.row)) % 2 == 0;
    switch (values) {
        case Values::usual: return value;
        case Values::wide: return value * std::exp2(static_cast<double>(random.below(17)) - 8);
        case Values::tiny: return plain ? value : value * 0x1p-20;
        case Values::constant:
            return plain ? value
                         : 0.75 + static_cast<double>(mix(seed + 7 * static_cast<std::uint64_t>(place.row)) %
                                                      64) /
                                      32;
        case Values::special: {
            constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(), -0.0};
            return random.below(400) == 0 ? kSpecial[random.below(4)] : value;
        }
        case Values::rising: return value * (0.5 + 2 * place.in_row + 2 * place.in_tensor);
        case Values::ties: {
            if (random.below(2) == 0) return tie(random);
            const double sign = random.below(2) == 0 ? 1 : -1;
            return sign * std::exp2(-static_cast<double>(random.below(12)));
        }
    }
    return value;
}

double draw(const Fill& fill, Values values, const Place& place, std::uint64_t seed, Random& random) {
    switch (fill.kind) {
        case Fill::Kind::normal:
            return shaped(fill.low + fill.high * random.normal(), values, place, seed, random);
        case Fill::Kind::scale:  // a power of two leaves ties where they are
            if (values == Values::ties) return std::exp2(std::floor(std::log2(fill.high)));
            return fill.low + (fill.high - fill.low) * random.uniform();
        case Fill::Kind::uniform: return fill.low + (fill.high - fill.low) * random.uniform();
        default: return 0;
    }
}

// Element i gets code i modulo their number.
void fill_codes(const Tensor& view, const std::vector<std::uint64_t>& codes) {
    const auto width = static_cast<std::size_t>(bits(view.dtype)) / 8;
    if (width == 0) {  // two elements a byte
        std::size_t next = 0;
        for_each_offset(view, [&](std::int64_t i) {
            store_element(view.dtype, view.data, i, decode(view.dtype, codes[next++ % codes.size()]));
        });
        return;
    }
    std::vector<char> packed(codes.size() * width);
    for (std::size_t i = 0; i < codes.size(); ++i) std::memcpy(&packed[i * width], &codes[i], width);
    std::size_t next = 0;  // in bytes
    for_each_run(view, [&](std::int64_t offset, std::int64_t count) {
        auto* to = static_cast<char*>(view.data) + static_cast<std::size_t>(offset) * width;
        for (std::size_t left = static_cast<std::size_t>(count) * width; left > 0;) {
            const std::size_t take = std::min(left, packed.size() - next);
            std::memcpy(to, &packed[next], take);
            to += take;
            left -= take;
            next = (next + take) % packed.size();
        }
    });
}

void draw_numbers(const Fill& fill, const Tensor& view, Values values, Random& random) {
    // Large tensors repeat their first elements, a prime number of them, so that no two rows are alike.
    constexpr std::int64_t kPeriod = 1'000'003;
    std::vector<std::uint64_t> codes(static_cast<std::size_t>(std::min(kPeriod, view.numel())));
    const std::int64_t dim = view.rank < 2 ? 1 : std::max<std::int64_t>(1, view.dim(-1));
    const std::uint64_t seed = Random(random).bits();
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const Place place{at / dim, static_cast<double>(at % dim) / static_cast<double>(dim),
                          static_cast<double>(i) / static_cast<double>(codes.size())};
        codes[i] = encode(view.dtype, draw(fill, values, place, seed, random));
    }
    fill_codes(view, codes);
}

template <class T>
void shuffle(std::vector<T>& values, Random& random) {
    for (std::size_t i = values.size(); i > 1; --i)
        std::swap(values[i - 1],
                  values[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
}

// `count` numbers from 0 to `most`, in order. Often several are the same, so that what lies between is empty.
std::vector<std::int64_t> cuts(std::int64_t count, std::int64_t most, Random& random) {
    const bool extreme = random.below(4) == 0;  // all of it in one place
    std::vector<std::int64_t> at;
    for (std::int64_t i = 0; i < count; ++i)
        at.push_back(extreme ? random.below(2) * most : random.below(most + 1));
    std::sort(at.begin(), at.end());
    return at;
}

// Where groups end: of about as many each, as those of a router whose experts are in balance, or of any sizes. In usual calls every
// row is some group's, as operators of PyTorch want it.
std::vector<std::int64_t> ends(std::int64_t count, std::int64_t limit, bool usual, Random& random) {
    const std::int64_t all = usual || random.below(2) == 0 ? limit : random.below(limit + 1);
    if (random.below(3) == 0) {
        std::vector<std::int64_t> at = cuts(count - 1, all, random);
        at.push_back(all);
        return at;
    }
    std::vector<std::int64_t> at;
    const std::int64_t spread = all / count / 4;  // to either side
    for (std::int64_t i = 1; i <= count; ++i) {
        const std::int64_t even = i * all / count;
        at.push_back(i == count ? all : even + random.below(spread + 1) - random.below(spread + 1));
    }
    return at;
}

// Different numbers below `limit` in any order; -1 in every seventh place where that may be, and in those for which
// no number is left.
std::vector<std::int64_t> slots(std::int64_t count, std::int64_t limit, bool or_none, Random& random) {
    std::unordered_set<std::int64_t> taken;
    std::int64_t wanted = 0;
    for (std::int64_t i = 0; i < count; ++i) wanted += or_none && random.below(7) == 0 ? 0 : 1;
    wanted = std::min(wanted, limit);
    for (std::int64_t top = limit - wanted; top < limit; ++top) {  // Floyd's: every set is as likely
        const std::int64_t drawn = random.below(top + 1);
        taken.insert(taken.contains(drawn) ? top : drawn);
    }
    std::vector<std::int64_t> values(taken.begin(), taken.end());
    std::sort(values.begin(), values.end());
    values.resize(static_cast<std::size_t>(count), -1);
    shuffle(values, random);
    return values;
}

// All at once where they depend on each other; nothing for the other kinds.
std::vector<std::int64_t> draw_together(const Fill& fill, std::int64_t count, std::int64_t limit, bool usual,
                                        Random& random) {
    if (limit == kUnknown || count == 0) return {};
    if (fill.kind == Fill::Kind::slots) return slots(count, limit, fill.or_none, random);
    if (fill.kind == Fill::Kind::ends) return ends(count, limit, usual, random);
    if (fill.kind != Fill::Kind::offsets && fill.kind != Fill::Kind::parts) return {};
    const bool parts = fill.kind == Fill::Kind::parts;
    std::vector<std::int64_t> at = cuts(parts ? count - 1 : count - 2, limit, random);
    at.insert(at.begin(), 0);
    if (parts || count > 1) at.push_back(limit);
    if (!parts) return at;
    for (std::size_t i = 0; i + 1 < at.size(); ++i) at[i] = at[i + 1] - at[i];
    at.pop_back();
    return at;
}

// Numbers at the ends of what a rule allows and beyond, that a 32-bit index takes for another.
std::int64_t draw_outside(const Fill& fill, std::int64_t limit, Random& random) {
    const std::int64_t end = limit == kUnknown ? static_cast<std::int64_t>(fill.high) : limit;
    const std::int64_t within = random.below(std::max<std::int64_t>(1, end));
    const std::int64_t kOutside[] = {end,
                                     end + 1,
                                     -1,
                                     -1 - within,
                                     (std::int64_t{1} << 31) + within,
                                     (std::int64_t{1} << 32) + within,
                                     (std::int64_t{1} << 40) + within,
                                     within - (std::int64_t{1} << 32)};
    return random.pick(kOutside);
}

// none: -1 may stand for none. Usual numbers have none of these: with them calls are timed beside operators of PyTorch that
// refuse -1.
std::int64_t draw_integer(const Fill& fill, std::int64_t limit, DType dtype, bool none, Random& random) {
    const auto below = [&](std::int64_t most) { return random.below(std::max<std::int64_t>(1, most)); };
    const auto high = static_cast<std::int64_t>(fill.high);
    switch (fill.kind) {
        case Fill::Kind::index:
            return limit <= 0 || (none && fill.or_none && random.below(7) == 0) ? -1 : below(limit);
        // Axes that only absent inputs name have the size 0, and bound nothing.
        case Fill::Kind::positions:
            return below(limit == kUnknown || limit == 0 ? high : std::min(high, limit));
        case Fill::Kind::count: return random.below(3) == 0 ? limit : below(limit + 1);
        case Fill::Kind::lengths:
            if (random.below(8) == 0) return random.below(2) == 0 ? -1 : limit + 1 + below(20);
            return random.below(3) == 0 ? limit : below(limit + 1);
        case Fill::Kind::mask:
            return random.below(4) == 0 ? 0 : 1 + random.below(dtype == DType::uint8 ? 255 : 127);
        case Fill::Kind::uniform:
            return static_cast<std::int64_t>(fill.low) +
                   random.below(static_cast<std::int64_t>(fill.high - fill.low) + 1);
        default:
            if (dtype == DType::int4) return random.below(16) - 8;
            return random.below(dtype == DType::uint8 ? 256 : 200) - (dtype == DType::uint8 ? 0 : 100);
    }
}

}  // namespace

void draw_input(const Field& field, const Tensor& view, std::int64_t limit, Drawing drawing, Random random) {
    const Fill& fill = field.fill;
    if (is_floating(view.dtype)) return draw_numbers(fill, view, drawing.values, random);
    const bool special = drawing.values == Values::special;
    const bool outside = drawing.on_device && special && fill.defined_outside;
    const std::vector<std::int64_t> together =
        draw_together(fill, view.numel(), limit, drawing.values == Values::usual, random);
    std::size_t next = 0;
    for_each_offset(view, [&](std::int64_t i) {
        std::int64_t value =
            together.empty() ? draw_integer(fill, limit, view.dtype, special, random) : together[next++];
        if (outside && random.below(4) == 0) value = draw_outside(fill, limit, random);
        store_integer(view.dtype, view.data, i, value);
    });
}

}  // namespace weft
