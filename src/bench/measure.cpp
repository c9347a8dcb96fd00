// Measuring one case.
#include "bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/rotation.h"
#include "verify/verify.h"
#include "weft/graph.h"
#include "weft/roofline.h"

namespace weft {
namespace {

constexpr double kMostChecked = 1.5e8;  // elements that a comparison on the host can hold
constexpr int kMostCalls = 8192;        // in one graph

// Replays a graph of `calls` calls, round after round: one sample is the time of a call.
Statistics time_calls(Context& context, const MeasureOptions& options, int calls,
                      const std::function<void()>& queue) {
    const Graph graph(context, queue);
    for (int i = 0; i < 2; ++i) graph.replay();
    synchronize(context.device(), context.stream());
    std::vector<double> samples;
    for (int round = 0; round < options.rounds; ++round) {
        samples.push_back(time_us(context, [&] { graph.replay(); }) / calls);
    }
    return summarize(std::move(samples));
}

class Bench {
   public:
    Bench(const Case& c, Device device, const MeasureOptions& options)
        : case_(c),
          options_(options),
          stream_(device),
          context_(device, stream_.get()),
          instance_(c, device, options.seed, Values::usual) {
        for (const AnyImplementation& i : c.op().implementations[static_cast<int>(device.type)]) {
            if (!options.implementation.empty() && i.name != options.implementation) context_.avoid(i.name);
        }
    }

    void time(Measurement& m) {
        queue(instance_.call());  // scratch gets its size, plans are chosen
        synchronize(context_.device(), context_.stream());
        const double once = std::max(0.5, time_us(context_, [&] { queue(instance_.call()); }));
        const int wanted = std::clamp(static_cast<int>(std::ceil(options_.replay_us / once)), 1, kMostCalls);
        m.hot = time_calls(context_, options_, wanted, [&] {
            for (int i = 0; i < wanted; ++i) queue(instance_.call());
        });
        const double l2 = static_cast<double>(context_.info().l2_bytes);
        const Rotation rotation(case_, instance_, Rotation::sets_for(case_, instance_, 3 * l2));
        const auto sets = static_cast<int>(rotation.sets());
        const int calls = std::max(sets, wanted / sets * sets);
        m.cold = time_calls(context_, options_, calls, [&] {
            for (int i = 0; i < calls; ++i) queue(rotation.call(static_cast<std::size_t>(i % sets)));
        });
    }

    std::string implementation() const {
        for (const Verdict& v : explain(case_.op(), instance_.call(), context_.info())) {
            if (v.reason.empty() && !context_.avoids(v.implementation))
                return v.implementation + " " + v.config;
        }
        return "none";
    }

    // The first call's result; or what timing left in the outputs; or, where calls overwrite their inputs,
    // what one more call writes.
    Outcome check(const Instance& expected, const Oracle& oracle, bool timed) {
        if (!timed || overwrites_inputs()) {
            instance_.reset();
            if (timed) {
                Graph(context_, [&] { queue(instance_.call()); }).replay();
            } else {
                queue(instance_.call());
            }
            synchronize(context_.device(), context_.stream());
        }
        return compare(case_, instance_, expected, oracle);
    }

   private:
    bool overwrites_inputs() const {
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
            const TensorSpec& spec = case_.tensors[i];
            if (spec.present && (spec.alias >= 0 || case_.contract().fields()[i].role == Role::inout))
                return true;
        }
        return false;
    }
    void queue(const void* call) { detail::run(case_.op(), call, context_); }

    Case case_;
    MeasureOptions options_;
    OwnedStream stream_;
    Context context_;
    Instance instance_;
};

double elements(const Case& c) {
    return std::accumulate(c.tensors.begin(), c.tensors.end(), 0.0, [](double sum, const TensorSpec& t) {
        return sum + (t.present && t.alias < 0 ? static_cast<double>(t.span()) : 0);
    });
}

void reject(Measurement& m, std::string why) {
    m.checked = false;
    m.why = std::move(why);
    m.cold.reset();
    m.hot.reset();
}

// A correct kernel that beats the least time reads its operands from a cache, or the measurement is wrong.
void check_floor(Measurement& m, double l2_bytes) {
    if (m.cold && m.floor_us > 0 && m.cold->median < 0.97 * m.floor_us && m.work.bytes > l2_bytes) {
        reject(m, fmt::format("{:.2f} us is below the floor of {:.2f} us", m.cold->median, m.floor_us));
    }
}

// One reference, compared with before and after timing.
void measure_checked(Measurement& m, const Case& c, Device device, const MeasureOptions& options) {
    const Instance expected(c, kCpu, options.seed, Values::usual);
    Oracle oracle(true);
    oracle.sample(sample_of(c));
    c.op().reference(expected.call(), oracle);
    Bench bench(c, device, options);
    m.implementation = bench.implementation();
    for (const bool timed : {false, true}) {
        if (timed) bench.time(m);
        const Outcome outcome = bench.check(expected, oracle, timed);
        if (!outcome.passed) return reject(m, (timed ? "after timing: " : "") + outcome.why);
    }
    m.checked = true;
}

}  // namespace

Statistics summarize(std::vector<double> samples) {
    if (samples.empty()) throw Error(ErrorCode::internal, "", "", "statistics of no samples");
    std::sort(samples.begin(), samples.end());
    const auto n = static_cast<double>(samples.size());
    const auto quantile = [&](double q) {  // between the two samples around it
        const double at = q * (n - 1);
        const auto low = static_cast<std::size_t>(at);
        const std::size_t high = std::min(low + 1, samples.size() - 1);
        return samples[low] + (at - std::floor(at)) * (samples[high] - samples[low]);
    };
    Statistics s;
    s.samples = static_cast<int>(samples.size());
    s.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / n;
    for (const double v : samples) s.deviation += (v - s.mean) * (v - s.mean);
    s.deviation = std::sqrt(s.deviation / std::max(1.0, n - 1));
    s.median = quantile(0.5);
    s.minimum = samples.front();
    s.p10 = quantile(0.1);
    s.p90 = quantile(0.9);
    return s;
}

Case shortened(const Case& c, double most) {
    const double have = elements(c);
    if (have <= most) return c;
    Case shorter = c;
    const double keep = most / have;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        TensorSpec& spec = shorter.tensors[i];
        const AxisPattern& pattern = c.contract().fields()[i].pattern;
        if (!spec.present || !pattern.ellipsis || spec.shape.size() <= pattern.axes.size()) continue;
        spec.shape[0] =
            std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(spec.shape[0]) * keep));
    }
    return shorter;
}

Measurement measure(const Case& c, Device device, const MeasureOptions& options) {
    Measurement m;
    c.with_call(device, [&](const void* call) { m.work = c.contract().work(call); });
    m.floor_us = floor_us(m.work, device_info(device));
    const Case small = shortened(c, kMostChecked);
    if (small == c) {
        measure_checked(m, c, device, options);
    } else {
        const Outcome outcome = verify(small, device, options.seed, Values::usual, options.implementation);
        m.implementation = outcome.implementation;
        if (!outcome.passed) {
            reject(m, outcome.why);
            return m;
        }
        m.checked = true;
        m.checked_on = small.line();
        Bench(c, device, options).time(m);
    }
    check_floor(m, static_cast<double>(device_info(device).l2_bytes));
    return m;
}

double launch_floor_us(Device device) {
    const OpEntry* op = find_op("residual_add");
    if (op == nullptr) return 0;
    const Case c = Case::parse("residual_add x=fp32[1] residual=fp32[1] out=fp32[1]");
    return measure(c, device).hot.value_or(Statistics{}).median;
}

}  // namespace weft
