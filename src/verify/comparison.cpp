// Evaluating and comparing.
#include "verify/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <utility>

#include "verify/parallel.h"
#include "verify/random.h"
#include "verify/written.h"

namespace weft {

// A part of the call: its own memory for what is cut or written, a view of the operands for the rest.
struct Reference::Piece {
    Part part;
    Instance::Contents memory;
    std::vector<std::max_align_t> call;
    Oracle oracle{true};
};

namespace {

// Operations that an element costs the reference besides its arithmetic: conversions, the oracle's record.
constexpr double kElementCost = 60;
constexpr double kPieceCost = 2e7;
constexpr std::int64_t kWantedParts = 48, kMostParts = 2048, kLongestRange = 16;

std::size_t owner_of(const Case& c, std::size_t field) {
    return c.tensors[field].alias < 0 ? field : static_cast<std::size_t>(c.tensors[field].alias);
}

bool is_written(const Case& c, std::size_t owner) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        if (c.tensors[i].present && owner_of(c, i) == owner && c.contract().fields()[i].writes()) return true;
    }
    return false;
}

double elements(const Case& c) {
    double sum = 0;
    for (const TensorSpec& t : c.tensors) {
        if (t.present && t.alias < 0) sum += static_cast<double>(t.over(nullptr, kCpu).numel());
    }
    return sum;
}

double cost(const Case& c) {
    double flops = 0;
    c.with_call(kCpu, [&](const void* call) { flops = c.contract().work(call).flops; });
    return flops + kElementCost * elements(c);
}

// Copies elements into a dense tensor of the same shape.
void gather(const Tensor& to, const Tensor& from) {
    const int width = bits(from.dtype);
    std::int64_t next = 0;
    for_each_run(from, [&](std::int64_t offset, std::int64_t count) {
        const bool bytewise = width >= 8 || (offset % 2 == 0 && next % 2 == 0 && count % 2 == 0);
        if (bytewise) {
            std::memcpy(static_cast<char*>(to.data) + bytes(to.dtype, next),
                        static_cast<const char*>(from.data) + bytes(from.dtype, offset),
                        static_cast<std::size_t>(bytes(from.dtype, count)));
        } else {
            for (std::int64_t i = 0; i < count; ++i) {
                store_element(to.dtype, to.data, next + i, load_element(from.dtype, from.data, offset + i));
            }
        }
        next += count;
    });
}

// The index of an element, in words: outputs don't overlap themselves, so that strides tell it.
std::string place(const Tensor& t, std::int64_t offset) {
    std::vector<std::size_t> axes;
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.rank); ++i) {
        if (t.shape[i] > 1) axes.push_back(i);
    }
    std::sort(axes.begin(), axes.end(),
              [&](std::size_t a, std::size_t b) { return t.stride[a] > t.stride[b]; });
    std::vector<std::int64_t> index(static_cast<std::size_t>(t.rank), 0);
    for (const std::size_t i : axes) {
        index[i] = offset / t.stride[i];
        offset %= t.stride[i];
    }
    return fmt::format("[{}]", fmt::join(index, ","));
}

std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.9g}", value); }

// How far `got` lies outside or inside what is allowed; above 1 it is wrong.
double distance(DType dtype, double got, double value, double error) {
    if (error == Oracle::kUndetermined) return 0;
    if (std::isnan(value) || std::isnan(got)) return std::isnan(value) && std::isnan(got) ? 0 : INFINITY;
    if (std::isinf(value)) return got == round_to(dtype, value) ? 0 : INFINITY;  // fp8 saturates
    const double low = round_to(dtype, value - error), high = round_to(dtype, value + error);
    if (got >= low && got <= high) {
        const double room = std::max(high - value, value - low);
        return room > 0 && std::isfinite(room) ? std::min(1.0, std::fabs(got - value) / room) : 0;
    }
    return INFINITY;
}

Outcome failure(std::string why) {
    Outcome outcome;
    outcome.passed = false;
    outcome.why = std::move(why);
    return outcome;
}

// The call cut along its longest axis, so that threads share it.
std::vector<Part> whole_in(const std::vector<Cut>& cuts, std::int64_t pieces) {
    Part all;
    for (const Cut& cut : cuts) all.push_back({0, cut.size});
    if (cuts.empty()) return {all};
    const auto longest = static_cast<std::size_t>(
        std::max_element(cuts.begin(), cuts.end(),
                         [](const Cut& a, const Cut& b) { return a.size < b.size; }) -
        cuts.begin());
    const std::int64_t size = cuts[longest].size;
    pieces = std::clamp<std::int64_t>(pieces, 1, size);
    std::vector<Part> parts(static_cast<std::size_t>(pieces), all);
    for (std::int64_t i = 0; i < pieces; ++i) {
        parts[static_cast<std::size_t>(i)][longest] = {i * size / pieces, (i + 1) * size / pieces};
    }
    return parts;
}

// How long a sampled part's ranges are: as long as enough parts remain affordable.
std::vector<std::int64_t> extents(const Case& c, const std::vector<Cut>& cuts, double budget, double most) {
    std::vector<std::int64_t> extent(cuts.size(), 1);
    const auto affordable = [&] {
        Part part;
        for (const std::int64_t e : extent) part.push_back({0, e});
        const Case less = part_case(c, cuts, part);
        return cost(less) * kWantedParts <= budget && elements(less) * kWantedParts <= most;
    };
    for (std::int64_t length = 2; length <= kLongestRange; length *= 2) {
        for (std::size_t i = 0; i < cuts.size(); ++i) {
            if (cuts[i].size < length) continue;
            const std::int64_t before = std::exchange(extent[i], length);
            if (!affordable()) extent[i] = before;
        }
    }
    return extent;
}

}  // namespace

Reference::~Reference() = default;
Reference::Reference(Reference&&) noexcept = default;
Reference& Reference::operator=(Reference&&) noexcept = default;

std::vector<Part> Reference::choose_parts(const ReferenceLimits& limits, std::uint64_t seed) {
    const double budget = limits.operations * static_cast<double>(threads_), total = cost(case_);
    if (total <= budget && elements(case_) <= limits.elements) {
        return whole_in(cuts_, static_cast<std::int64_t>(
                                   std::min(total / kPieceCost, 4.0 * static_cast<double>(threads_))));
    }
    const std::vector<std::int64_t> extent = extents(case_, cuts_, budget, limits.elements);
    Part first, last;
    for (std::size_t i = 0; i < cuts_.size(); ++i) {
        first.push_back({0, extent[i]});
        last.push_back({cuts_[i].size - extent[i], cuts_[i].size});
    }
    const Case less = part_case(case_, cuts_, first);
    const double afford = std::min(budget / cost(less), limits.elements / elements(less));
    // Eight parts at least, with few of their rows each, rather than one part with many.
    const auto count =
        cuts_.empty() ? 1 : std::clamp<std::int64_t>(static_cast<std::int64_t>(afford), 8, kMostParts);
    one_in_ = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(count) * cost(less) / budget));
    std::vector<Part> parts = {first};
    if (count > 1) parts.push_back(last);
    Random random(seed, 77);
    while (static_cast<std::int64_t>(parts.size()) < count) {
        Part& part = parts.emplace_back(first);
        for (std::size_t i = 0; i < cuts_.size(); ++i) {
            const std::int64_t begin = random.below(cuts_[i].size - extent[i] + 1);
            part[i] = {begin, begin + extent[i]};
        }
    }
    std::vector<std::string> along;
    for (std::size_t i = 0; i < cuts_.size(); ++i) {
        along.push_back(
            fmt::format("{} of {} {}", extent[i] * cuts_[i].step, cuts_[i].length, cuts_[i].name));
    }
    sampled_ = cuts_.empty() ? "the whole call"
                             : fmt::format("{} parts ({})", parts.size(), fmt::join(along, " x "));
    if (one_in_ > 1) sampled_ += fmt::format(", one row in {}", one_in_);
    return parts;
}

Reference::Reference(const Instance& operands, const ReferenceLimits& limits, std::uint64_t seed)
    : case_(operands.source()), operands_(operands.initial()), cuts_(cuts_of(case_)) {
    threads_ = limits.threads > 0 ? limits.threads : std::max(1u, std::thread::hardware_concurrency());
    const std::vector<Part> parts = choose_parts(limits, seed);
    pieces_.resize(parts.size());
    parallel_for(parts.size(), threads_, [&](std::size_t n) {
        pieces_[n] = std::make_unique<Piece>();
        Piece& piece = *pieces_[n];
        piece.part = parts[n];
        const Case less = part_case(case_, cuts_, piece.part);
        piece.memory.resize(case_.tensors.size());
        std::vector<void*> bases(case_.tensors.size(), nullptr);
        const auto source = [&](std::size_t i) {  // the operands are only read
            const TensorSpec& spec = case_.tensors[i];
            auto* base = const_cast<std::byte*>((*operands_)[i].data()) + operands.first_byte(i) -
                         bytes(spec.dtype, spec.offset);
            return spec.over(base, kCpu);
        };
        for (std::size_t i = 0; i < bases.size(); ++i) {
            const TensorSpec& spec = case_.tensors[i];
            if (!spec.present || spec.alias >= 0) continue;
            if (is_cut(case_.pattern(i), cuts_) || is_written(case_, i)) {
                piece.memory[i].resize(static_cast<std::size_t>(bytes(spec.dtype, less.tensors[i].span())) +
                                       1);
                bases[i] = piece.memory[i].data();
                gather(less.tensors[i].over(bases[i], kCpu),
                       share(source(i), case_.pattern(i), cuts_, piece.part));
            }
        }
        piece.call.resize(case_.contract().size() / sizeof(std::max_align_t) + 1);
        less.bind(piece.call.data(), bases, kCpu);
        for (std::size_t i = 0; i < bases.size(); ++i) {
            const TensorSpec& spec = case_.tensors[i];
            if (spec.present && bases[owner_of(case_, i)] == nullptr)
                Contract::tensor(piece.call.data(), case_.contract().fields()[i]) = source(i);
        }
        piece.oracle.sample(one_in_);
        piece.oracle.set_hardware(limits.hardware);
        case_.op().reference(piece.call.data(), piece.oracle);
    });
}

Outcome Reference::compare(const Instance& result) {
    now_.resize(case_.tensors.size());
    for (std::size_t i = 0; i < now_.size(); ++i) {
        if (case_.tensors[i].present && case_.tensors[i].alias < 0) result.read(i, now_[i]);
    }
    std::vector<Outcome> outcomes(pieces_.size());
    parallel_for(pieces_.size(), threads_,
                 [&](std::size_t n) { outcomes[n] = compare_piece(*pieces_[n], result); });
    double worst = 0;
    for (const Outcome& outcome : outcomes) {
        if (!outcome.passed) return outcome;
        worst = std::max(worst, outcome.worst);
    }
    Outcome all = compare_memory(result);
    all.worst = worst;
    return all;
}

std::string Reference::compare_rest(const Instance& result) const { return compare_memory(result).why; }

// Inputs, guards and gaps; and a hash of all bits, where those are as they were.
Outcome Reference::compare_memory(const Instance& result) const {
    Outcome all;
    for (std::size_t i = 0; i < now_.size(); ++i) {
        if (!case_.tensors[i].present || case_.tensors[i].alias >= 0) continue;
        const Examined memory = examine(now_[i], result.initial(i), written_spans(result, i), threads_);
        all.bits = static_cast<std::size_t>(mix(all.bits ^ memory.hash));
        if (memory.changed < 0) continue;
        return failure(fmt::format("{}: byte {} of its memory is not the op's to write, and changed",
                                   case_.contract().fields()[i].name,
                                   memory.changed - static_cast<std::ptrdiff_t>(result.first_byte(i))));
    }
    return all;
}

Outcome Reference::compare_piece(const Piece& piece, const Instance& result) const {
    Outcome outcome;
    for (std::size_t i = 0; i < case_.tensors.size() && outcome.passed; ++i) {
        const TensorSpec& spec = case_.tensors[i];
        const Field& f = case_.contract().fields()[i];
        if (!spec.present || !f.writes()) continue;
        const std::size_t owner = owner_of(case_, i);
        const auto view = [&](const std::vector<std::byte>& bytes_of) {
            auto* base = const_cast<std::byte*>(bytes_of.data()) + result.first_byte(owner) -
                         bytes(spec.dtype, spec.offset);
            return spec.over(base, kCpu);
        };
        const Tensor whole = view(now_[owner]), before = view(result.initial(owner));
        const Tensor got = share(whole, case_.pattern(i), cuts_, piece.part);
        const Oracle::Record* record = piece.oracle.find(Contract::tensor(piece.call.data(), f).data);
        const std::int64_t skipped =
            (static_cast<char*>(got.data) - static_cast<char*>(whole.data)) * 8 / bits(spec.dtype);
        std::size_t next = 0;
        for_each_offset(got, [&](std::int64_t offset) {
            const std::size_t o = next++;
            if (!outcome.passed) return;
            const double value = load_element(spec.dtype, got.data, offset);
            if (record == nullptr || !record->written[o]) {
                if (piece.oracle.sampled()) return;
                if (f.role != Role::inout && !f.partial) {
                    outcome = failure(f.name + place(whole, skipped + offset) +
                                      ": the reference left it unwritten");
                    return;
                }
                // An element that the op leaves alone (a cache row it doesn't own) must keep its bits.
                const double kept = load_element(spec.dtype, before.data, skipped + offset);
                if (std::memcmp(&value, &kept, sizeof(value)) == 0) return;
                outcome =
                    failure(fmt::format("{}{}: is not the op's to write, and changed from {} to {}", f.name,
                                        place(whole, skipped + offset), number(kept), number(value)));
                return;
            }
            const double d = distance(spec.dtype, value, record->value[o], record->error[o]);
            outcome.worst = std::max(outcome.worst, d);
            if (d <= 1) return;
            outcome = failure(fmt::format("{}{}: got {}, expected {} (reference {}, fp32 error up to {:.3g})",
                                          f.name, place(whole, skipped + offset), number(value),
                                          number(round_to(spec.dtype, record->value[o])),
                                          number(record->value[o]), record->error[o]));
        });
    }
    return outcome;
}

}  // namespace weft
