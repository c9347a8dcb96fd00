// Verification: two poisoned runs against the reference's intervals.
#include "verify/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#if WEFT_HAS_EMULATOR
#include "emulator/emulator.h"
#endif

namespace weft {
namespace {

void set_emulator_poison([[maybe_unused]] int poison) {
#if WEFT_HAS_EMULATOR
    emulator::set_poison(static_cast<std::uint8_t>(poison));
#endif
}

// The index of an element, in words: only failures ask.
std::string place(const TensorSpec& spec, std::int64_t offset) {
    const Tensor t = spec.over(nullptr, kCpu);
    std::vector<std::int64_t> index(static_cast<std::size_t>(t.rank));
    std::int64_t number = 0, wanted = -1;  // in row-major order
    for_each_offset(t, [&](std::int64_t at) {
        if (at == offset && wanted < 0) wanted = number;
        ++number;
    });
    for (int axis = t.rank - 1; axis >= 0; --axis) {
        index[static_cast<std::size_t>(axis)] = wanted % t.shape[axis];
        wanted /= t.shape[axis];
    }
    return fmt::format("[{}]", fmt::join(index, ","));
}

std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.9g}", value); }

// How far `got` lies outside or inside what is allowed; above 1 it is wrong.
double distance(DType dtype, double got, double value, double error) {
    if (std::isnan(value) || std::isnan(got)) return std::isnan(value) && std::isnan(got) ? 0 : INFINITY;
    if (std::isinf(value)) return got == round_to(dtype, value) ? 0 : INFINITY;  // fp8 saturates
    const double low = round_to(dtype, value - error), high = round_to(dtype, value + error);
    if (got >= low && got <= high) {
        const double room = std::max(high - value, value - low);
        return room > 0 && std::isfinite(room) ? std::min(1.0, std::fabs(got - value) / room) : 0;
    }
    return INFINITY;
}

class Comparison {
   public:
    Comparison(const Case& c, const Instance& result, const Instance& expected, const Oracle& oracle)
        : case_(c), result_(result), expected_(expected), oracle_(oracle) {}

    Outcome run() {
        for (std::size_t i = 0; i < case_.tensors.size() && outcome_.passed; ++i) {
            if (case_.tensors[i].present && case_.tensors[i].alias < 0) memory(i);
        }
        return outcome_;
    }

   private:
    // One field's memory: elements that some output view of it covers, and everything else.
    void memory(std::size_t owner) {
        const std::vector<std::byte> got = result_.bytes(owner);
        std::vector<bool> written(got.size());
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
            const bool here = i == owner || case_.tensors[i].alias == static_cast<int>(owner);
            if (here && case_.contract().fields()[i].writes()) elements(i, owner, got, written);
        }
        const std::vector<std::byte>& before = result_.initial(owner);
        for (std::size_t b = 0; b < got.size() && outcome_.passed; ++b) {
            if (!written[b] && got[b] != before[b]) {
                const auto where =
                    static_cast<std::ptrdiff_t>(b) - static_cast<std::ptrdiff_t>(result_.first_byte(owner));
                fail(fmt::format("{}: byte {} of its memory is not the op's to write, and changed",
                                 case_.contract().fields()[owner].name, where));
            }
        }
    }

    void elements(std::size_t field, std::size_t owner, const std::vector<std::byte>& got,
                  std::vector<bool>& written) {
        const TensorSpec& spec = case_.tensors[field];
        const Field& f = case_.contract().fields()[field];
        const Tensor view = Contract::tensor(expected_.call(), f);
        const Oracle::Record* record = oracle_.find(view.data);
        const std::byte* base = got.data() + result_.first_byte(owner);
        const std::size_t first = result_.first_byte(owner);
        for_each_offset(view, [&](std::int64_t offset) {
            const auto o = static_cast<std::size_t>(offset);
            if (!outcome_.passed) return;
            if (record == nullptr || !record->written[o]) {
                if (oracle_.sampled()) return mark(written, first, spec.dtype, offset);
                // An element that the op leaves alone (a cache row it doesn't own) must keep its bits.
                if (f.role != Role::inout)
                    fail(fmt::format("{}{}: the reference left it unwritten", f.name, place(spec, offset)));
                return;
            }
            mark(written, first, spec.dtype, offset);
            const double value = load_element(spec.dtype, base, offset);
            const double d = distance(spec.dtype, value, record->value[o], record->error[o]);
            outcome_.worst = std::max(outcome_.worst, d);
            if (d > 1) {
                fail(fmt::format("{}{}: got {}, expected {} (reference {}, fp32 error up to {:.3g})", f.name,
                                 place(spec, offset), number(value),
                                 number(round_to(spec.dtype, record->value[o])), number(record->value[o]),
                                 record->error[o]));
            }
        });
    }

    static void mark(std::vector<bool>& written, std::size_t first, DType dtype, std::int64_t offset) {
        const auto begin = first + static_cast<std::size_t>(offset * bits(dtype) / 8);
        const auto end = first + static_cast<std::size_t>((offset * bits(dtype) + bits(dtype) + 7) / 8);
        for (std::size_t b = begin; b < end; ++b) written[b] = true;
    }
    void fail(std::string why) {
        outcome_.passed = false;
        outcome_.why = std::move(why);
    }

    const Case& case_;
    const Instance &result_, &expected_;
    const Oracle& oracle_;
    Outcome outcome_;
};

std::string accepted_by(const Case& c, const void* call, const Context& context) {
    for (const Verdict& v : explain(c.op(), call, context.info())) {
        if (v.reason.empty() && !context.avoids(v.implementation))
            return v.config.empty() ? v.implementation : v.implementation + " " + v.config;
    }
    return "none";
}

// The bytes of all elements that the op wrote, one field after another.
std::vector<std::byte> written_bits(const Case& c, const Instance& result, const Oracle& oracle,
                                    const Instance& expected) {
    std::vector<std::byte> bits;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const TensorSpec& spec = c.tensors[i];
        if (!spec.present || !c.contract().fields()[i].writes()) continue;
        const std::size_t owner = spec.alias < 0 ? i : static_cast<std::size_t>(spec.alias);
        const std::vector<std::byte> memory = result.bytes(owner);
        const Tensor view = Contract::tensor(expected.call(), c.contract().fields()[i]);
        const Oracle::Record* record = oracle.find(view.data);
        for_each_offset(view, [&](std::int64_t offset) {
            if (record == nullptr || !record->written[static_cast<std::size_t>(offset)]) return;
            const auto* at = memory.data() + result.first_byte(owner) + bytes(spec.dtype, offset);
            bits.insert(bits.end(), at, at + bytes(spec.dtype, 1));
        });
    }
    return bits;
}

}  // namespace

std::int64_t sample_of(const Case& c) {
    constexpr double kMostFlops = 2e9;
    double flops = 0;
    c.with_call(kCpu, [&](const void* call) { flops = c.contract().work(call).flops; });
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(flops / kMostFlops));
}

Outcome compare(const Case& c, const Instance& result, const Instance& expected, const Oracle& oracle) {
    return Comparison(c, result, expected, oracle).run();
}

Outcome verify(const Case& c, Device device, std::uint64_t seed, Values values,
               const std::string& implementation) {
    const Instance expected(c, kCpu, seed, values);
    Oracle oracle(true);
    oracle.sample(sample_of(c));
    c.op().reference(expected.call(), oracle);
    Context context(device);
    for (const AnyImplementation& i : c.op().implementations[static_cast<int>(device.type)]) {
        if (!implementation.empty() && i.name != implementation) context.avoid(i.name);
    }
    Outcome outcome;
    std::vector<std::byte> first;
    for (const int poison : {0xff, 0x55}) {
        set_emulator_poison(poison);
        const Instance result(c, device, seed, values, poison);
        result.run(context);
        outcome = compare(c, result, expected, oracle);
        outcome.implementation = accepted_by(c, result.call(), context);
        if (!outcome.passed) return outcome;
        const std::vector<std::byte> bits = written_bits(c, result, oracle, expected);
        if (poison == 0xff) {
            first = bits;
        } else if (c.contract().deterministic() && bits != first) {
            outcome.passed = false;
            outcome.why = "two runs differ: the result depends on memory that nothing wrote, or on order";
        }
    }
    return outcome;
}

}  // namespace weft
