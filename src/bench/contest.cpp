// The order of checking and timing, and what is rejected.
#include "bench/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/card_calls.h"
#include "bench/rotation.h"
#include "core/cuda_api.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/memory.h"
#include "weft/roofline.h"

namespace weft {
namespace {

// A time may lie so much below the floor as the card's own rates vary from measurement to measurement.
constexpr double kFloorTolerance = 0.97;

void reject(Result& result, std::string why) {
    result.checked = false;
    result.why = std::move(why);
    for (auto& by_cache : result.times) {
        for (auto& timing : by_cache) timing.reset();
    }
}

// The first line of what an exception says.
std::string failure(const std::exception& e) {
    const std::string_view what = e.what();
    return std::string(kFailed) + std::string(what.substr(0, what.find('\n')));
}

// What goes wrong in a callable is its result; a CUDA error may have cost the device's context, and ends all.
template <class Work>
std::string guarded(Work work) {
    try {
        return work();
    } catch (const Error& e) {
        if (e.code() == ErrorCode::cuda) throw;
        return failure(e);
    } catch (const std::exception& e) {
        return failure(e);
    }
}

void summarize_times(Result& result) {
    for (const Time time : kTimes) {
        for (const Cache cache : kCaches) {
            auto& timing = result.at(time, cache);
            if (!timing) continue;
            if (timing->samples.empty())
                return reject(result, fmt::format("all {} samples were taken while the card throttled",
                                                  timing->dropped));
            timing->us = summarize(timing->samples);
        }
    }
}

// No correct computation is faster than its operands move, or than its arithmetic runs. Hot operands may
// lie in the L2 as far as they fit, and nothing is said of cases that fit altogether.
std::string below_floor(const Result& result, const Work& work, const DeviceInfo& info) {
    const auto l2 = static_cast<double>(info.l2_bytes);
    if (floor_us(work, info) <= 0 || work.bytes <= l2) return "";
    for (const Cache cache : kCaches) {
        Work least = work;
        if (cache == Cache::hot) least.bytes -= l2;
        const double floor = floor_us(least, info);
        const auto& timing = result.at(Time::device, cache);
        if (timing && timing->us.median < kFloorTolerance * floor) {
            return fmt::format("{:.2f} us ({}) is below the floor of {:.2f} us: not all of the work was done",
                               timing->us.median, name(cache), floor);
        }
    }
    return "";
}

}  // namespace

Contest::Contest(Device device, Stream stream, const Work& work, const SampleOptions& options,
                 const std::optional<CardRates>& rates)
    : own_stream_(stream.handle == nullptr ? std::optional(OwnedStream(device)) : std::nullopt),
      context_(device, own_stream_ ? own_stream_->get() : stream),
      info_(with_rates(device_info(device), rates ? *rates : card_rates(device))),
      work_(work),
      sample_(options) {}

std::size_t Contest::cold_sets(double footprint) const {
    return Rotation::sets_for(footprint, std::min(work_.bytes, footprint), rotated_bytes());
}

void Contest::add_card() {
    for (Callable& callable : card_calls(context_, work_.bytes, rotated_bytes()))
        callables_.push_back(std::move(callable));
}

// A baseline may round between its steps, as its framework's operators do: it is then marked so.
std::string Contest::check(const Callable& callable, std::size_t set, Result& result) {
    if (callable.check) return callable.check(set);
    if (callable.deliver) callable.deliver(set);
    synchronize(context_.device(), context_.stream());
    const std::string why = compare(callable, set);
    if (why.empty() || callable.side == Side::weft) return why;
    const std::optional<std::string> chain = compare_chain(set);
    if (!chain) return why;
    result.rounds_between = result.rounds_between || chain->empty();
    return chain->empty() ? "" : why + "; and rounding between steps: " + *chain;
}

std::string Contest::check_first(const Callable& callable, Result& result) {
    return guarded([&] {
        reset(0);
        callable.call(0);
        return check(callable, 0, result);
    });
}

// What the last timed calls left in outputs that were poisoned before them; or, where calls overwrite their
// inputs, what one more call through a graph does.
std::string Contest::check_last(const Callable& callable, Sampler& sampler, Result& result) {
    return guarded([&]() -> std::string {
        for (const Cache cache : kCaches) {
            // What is too large to be compared whole is long to bring back, and hot only in name.
            if (cache == Cache::hot && !checked_on().empty()) continue;
            const std::size_t set = overwrites_inputs() ? 0 : sampler.last_set(result, cache);
            reset(set);
            if (!overwrites_inputs()) {
                sampler.last_sample(result, cache);
            } else if (callable.record) {
                callable.record(1, 1)();
            } else if (!callable.recordable) {
                callable.call(set);
            } else {
                Graph(context_, [&] { callable.call(set); }).replay();
            }
            synchronize(context_.device(), context_.stream());
            const std::string why = check(callable, set, result);
            if (!why.empty()) return "after timing: " + why;
        }
        return "";
    });
}

// The first baseline with a device time, else the first of all.
void Contest::add_noise(Measurement& m) {
    if (callables_.empty()) return;
    std::size_t again = 0;
    for (std::size_t i = m.results.size(); i-- > 0;) {
        const Result& r = m.results[i];
        if (r.side == Side::baseline && r.computes && r.why.empty() && callables_[i].recordable) again = i;
    }
    if (!m.results[again].why.empty() || !m.results[again].computes) return;
    callables_.push_back(callables_[again]);
    callables_.back().side = Side::noise;
    m.results.emplace_back(m.results[again]).side = Side::noise;
}

Measurement Contest::run() {
    const cuda::DeviceGuard guard(context_.device());  // for the card's own kernels, which no op launches
    Measurement m;
    m.work = work_;
    m.floor_us = floor_us(work_, info_);
    m.checked_on = checked_on();
    m.cold_sets = sets();
    m.results.reserve(callables_.size() + 1);  // the sampler keeps their addresses
    for (const Callable& callable : callables_) {
        Result& result = m.results.emplace_back();
        result.name = callable.name;
        result.side = callable.side;
        result.computes = !callable.check;
        result.why = check_first(callable, result);
        if (callable.taken) result.name = callable.taken();
    }
    add_noise(m);
    Sampler sampler(context_, sets(), sample_);
    for (std::size_t i = 0; i < m.results.size(); ++i) {
        Result& result = m.results[i];
        if (!result.why.empty()) continue;
        result.why = guarded([&] {
            sampler.add(callables_[i], result);
            return std::string();
        });
    }
    sampler.run();
    for (std::size_t i = 0; i < m.results.size(); ++i) {
        Result& result = m.results[i];
        if (result.why.empty()) result.why = check_last(callables_[i], sampler, result);
        if (result.why.empty()) summarize_times(result);
        if (result.why.empty() && result.computes) result.why = below_floor(result, work_, info_);
        result.checked = result.why.empty();
        if (!result.checked) reject(result, result.why);
    }
    return m;
}

}  // namespace weft
