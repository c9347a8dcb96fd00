// Their memory, and how each is checked.
#include "bench/card_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "bench/card.h"
#include "weft/memory.h"

namespace weft {
namespace {

constexpr int kPattern = 0x5a, kPoison = 0xff;
constexpr std::int64_t kPiece = 512;             // sizes are multiples of it
constexpr std::int64_t kMostChecked = 64 << 20;  // bytes of a copy's end

struct Memory {
    Memory(Device device, std::int64_t each, std::int64_t count)
        : each(each),
          count(count),
          data(device, static_cast<std::size_t>(each * count)),
          sums(device, kReadSums * sizeof(std::uint32_t)) {
        fill_bytes(data.data(), device, kPattern, data.size());
        for (std::int64_t set = 0; set < count; ++set) poison(static_cast<std::size_t>(set));
    }
    char* at(std::size_t set) const {
        return static_cast<char*>(data.data()) + static_cast<std::int64_t>(set) % count * each;
    }
    // The half of a set that a copy writes, until the next copy.
    void poison(std::size_t set) const {
        fill_bytes(at(set) + each / 2, data.device(), kPoison, static_cast<std::size_t>(each / 2));
    }
    std::int64_t each, count;
    Buffer data, sums;
};

// Is the half of a set that a copy wrote (its end) the pattern of the other?
std::string check_copy(const Memory& memory, std::size_t set) {
    std::vector<unsigned char> got(static_cast<std::size_t>(std::min(memory.each / 2, kMostChecked)));
    const char* end = memory.at(set) + memory.each;
    copy_bytes(got.data(), kCpu, end - got.size(), memory.data.device(), got.size());
    const bool right = std::all_of(got.begin(), got.end(), [](unsigned char c) { return c == kPattern; });
    return right ? "" : "the copy differs from what was copied";
}

// Is what one more read adds up the sum of the pattern's words?
std::string check_read(const Memory& memory, std::size_t set, Context& context) {
    const Device device = context.device();
    fill_bytes(memory.sums.data(), device, 0, memory.sums.size());
    card_kernels(device.type)
        .read(memory.at(set), memory.each, static_cast<std::uint32_t*>(memory.sums.data()), context);
    synchronize(device, context.stream());
    std::vector<std::uint32_t> sums(kReadSums);
    copy_bytes(sums.data(), kCpu, memory.sums.data(), device, memory.sums.size());
    const auto words = static_cast<std::uint32_t>(memory.each / 4);
    const bool right = std::accumulate(sums.begin(), sums.end(), std::uint32_t{0}) == words * 0x5a5a5a5au;
    return right ? "" : "the sum of what was read is wrong";
}

}  // namespace

std::vector<Callable> card_calls(Context& context, double bytes, double rotated) {
    const CardKernels& kernels = card_kernels(context.device().type);
    if (kernels.copy == nullptr) return {};
    const auto each = static_cast<std::int64_t>(std::ceil(std::max(bytes, 1.0) / kPiece)) * kPiece;
    const auto count =
        static_cast<std::int64_t>(std::max(1.0, std::ceil(rotated / static_cast<double>(each))));
    const auto memory = std::make_shared<Memory>(context.device(), each, count);
    Context* c = &context;
    const auto callable = [&](const char* name, auto call, std::function<std::string(std::size_t)> check) {
        Callable made;
        made.name = name;
        made.call = [memory, call](std::size_t set) { call(memory->at(set)); };
        made.check = std::move(check);
        return made;
    };
    std::vector<Callable> calls;
    calls.push_back(callable(
        "card copy", [each, c, copy = kernels.copy](char* at) { copy(at + each / 2, at, each / 2, *c); },
        [memory, c](std::size_t set) {
            synchronize(c->device(), c->stream());
            std::string why = check_copy(*memory, set);
            memory->poison(set);
            return why;
        }));
    calls.push_back(callable(
        "card read",
        [each, c, read = kernels.read, sums = static_cast<std::uint32_t*>(memory->sums.data())](char* at) {
            read(at, each, sums, *c);
        },
        [memory, c](std::size_t set) {
            synchronize(c->device(), c->stream());
            fill_bytes(memory->at(set), c->device(), kPattern, static_cast<std::size_t>(memory->each));
            return check_read(*memory, set, *c);
        }));
    calls.push_back(callable(
        "card launch", [c, nothing = kernels.nothing](char*) { nothing(*c); },
        [](std::size_t) { return std::string(); }));
    return calls;
}

}  // namespace weft
