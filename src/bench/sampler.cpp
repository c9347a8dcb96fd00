// Recording, interleaving, sampling.
#include "bench/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>

#include "verify/random.h"
#include "weft/memory.h"

namespace weft {
namespace {

constexpr double kMostCalls = 16384;  // in one graph
constexpr double kLong = 50'000;      // microseconds

// The time whose last calls are checked.
Time checked_time(const Result& result, Cache cache) {
    return result.at(Time::device, cache) ? Time::device : Time::eager;
}

double host_us(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Sampler::Sampler(Context& context, std::size_t sets, const SampleOptions& options)
    : context_(&context), sets_(sets), options_(options), clock_(context.device()) {}

double Sampler::once_us(const Callable& callable, Time time) {
    const auto few = [&] {
        for (int i = 0; i < 3; ++i) callable.call(0);
    };
    const auto few_and_wait = [&] {
        few();
        synchronize(context_->device(), context_->stream());
    };
    return std::max(0.5, (time == Time::device ? time_us(*context_, few) : host_us(few_and_wait)) / 3);
}

std::size_t Sampler::sets_of(double once_us, std::size_t sets) {
    constexpr double kLongestRound = 0.5e6;  // in which the card reads all sets a thousand times
    return static_cast<std::size_t>(std::clamp(kLongestRound / once_us, 1.0, static_cast<double>(sets)));
}

// Enough to fill a sample, each set equally often.
std::size_t Sampler::calls_of(double once_us, Time time, std::size_t sets) const {
    constexpr double kEagerShare = 0.25;  // of a sample's time: eager calls are long already
    const double wanted = options_.replay_us * (time == Time::eager ? kEagerShare : 1) / once_us;
    const auto rounds =
        static_cast<std::size_t>(std::clamp(wanted, 1.0, kMostCalls) / static_cast<double>(sets));
    // An eager sample may be of fewer calls than there are sets: the next sample goes on with other sets.
    if (time == Time::eager) return static_cast<std::size_t>(std::clamp(wanted, 1.0, 1000.0));
    return std::max<std::size_t>(1, rounds) * sets;
}

Sampler::Entry Sampler::make(const Callable& callable, Result& into, Time time, Cache cache, double once_us) {
    constexpr double kFewest = 3;  // a median of fewer is none
    Entry entry{callable, &into, time, cache, cache == Cache::cold ? sets_of(once_us, sets_) : 1};
    entry.calls = calls_of(once_us, time, entry.sets);
    entry.us = once_us * static_cast<double>(entry.calls);
    const double wanted = options_.rounds;
    entry.samples = static_cast<std::size_t>(
        std::clamp(1e6 * options_.most_s / entry.us, std::min(kFewest, wanted), wanted));
    into.at(time, cache).emplace();
    if (time == Time::eager) return entry;
    if (callable.record) {
        entry.replay = callable.record(entry.sets, entry.calls);
    } else {
        const auto graph = std::make_shared<Graph>(*context_, [call = callable.call, entry] {
            for (std::size_t i = 0; i < entry.calls; ++i) call(i % entry.sets);
        });
        entry.replay = [graph] { graph->replay(); };
    }
    entry.replay();
    synchronize(context_->device(), context_->stream());
    return entry;
}

void Sampler::add(const Callable& callable, Result& into) {
    std::vector<Entry> made;  // all of them or, where one can't be recorded, none
    for (const Time time : kTimes) {
        const bool timed =
            time == Time::device ? callable.recordable : options_.eager || !callable.recordable;
        if (!timed) continue;
        const double us = once_us(callable, time);
        for (const Cache cache : kCaches) made.push_back(make(callable, into, time, cache, us));
    }
    std::move(made.begin(), made.end(), std::back_inserter(entries_));
}

double Sampler::eager_us(const Entry& entry) {
    const std::size_t first = entry.result->at(entry.time, entry.cache)->samples.size() * entry.calls;
    return host_us([&] {
        for (std::size_t i = 0; i < entry.calls; ++i) entry.callable.call((first + i) % entry.sets);
        synchronize(context_->device(), context_->stream());
    });
}

void Sampler::sample(Entry& entry) {
    Timing& timing = *entry.result->at(entry.time, entry.cache);
    ClockReading reading;
    // Untimed, so that the timed one waits in the queue before the first is done: what the host needs to
    // launch it is in no time. Beside a long one it is nothing.
    const bool is_long = entry.us > kLong;
    if (entry.time == Time::device && context_->device().type == DeviceType::cuda && !is_long) entry.replay();
    const double us = entry.time == Time::eager
                          ? eager_us(entry)
                          : time_us(*context_, entry.replay, [&] { reading = clock_.read(); });
    if (entry.time == Time::eager) reading = clock_.read();
    if (reading.throttled()) {
        ++timing.dropped;
        return;
    }
    timing.samples.push_back(us / static_cast<double>(entry.calls));
    timing.power_capped += reading.power_capped() ? 1 : 0;
    if (reading.sm_mhz > 0) timing.sm_mhz.push_back(reading.sm_mhz);
}

void Sampler::run() {
    Random random(options_.seed, 3);
    std::vector<std::size_t> order(entries_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (int round = 0; round < 2 * options_.rounds; ++round) {  // as many again where samples were dropped
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1],
                      order[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
        }
        bool missing = false;
        for (const std::size_t i : order) {
            Entry& entry = entries_[i];
            const Timing& timing = *entry.result->at(entry.time, entry.cache);
            if (timing.samples.size() < entry.samples) sample(entry);
            missing = missing || timing.samples.size() < entry.samples;
        }
        if (!missing) break;
    }
}

void Sampler::last_sample(Result& of, Cache cache) {
    for (Entry& entry : entries_) {
        if (entry.result == &of && entry.time == checked_time(of, cache) && entry.cache == cache)
            sample(entry);
    }
}

// The set that its last call will work on.
std::size_t Sampler::last_set(const Result& of, Cache cache) const {
    const Time time = checked_time(of, cache);
    for (const Entry& entry : entries_) {
        if (entry.result != &of || entry.time != time || entry.cache != cache) continue;
        const std::size_t before =
            time == Time::device ? 0 : of.at(time, cache)->samples.size() * entry.calls;
        return (before + entry.calls - 1) % entry.sets;
    }
    return 0;
}

}  // namespace weft
