// The order of checking and timing, and what is rejected.
#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "bench/card_calls.h"
#include "verify/verify.h"
#include "weft/roofline.h"

namespace weft {
namespace {

// A time may lie so much below the floor as the card's own rates vary from measurement to measurement.
constexpr double kFloorTolerance = 0.97;
// Entries of an op's list that are a vendor's library: baselines, unless they are what dispatch chooses.
constexpr std::string_view kVendors[] = {"cublaslt", "cudnn"};

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

DeviceInfo info_of(Device device, const std::optional<CardRates>& rates) {
    return with_rates(device_info(device), rates ? *rates : card_rates(device));
}

Work work_of(const Case& c, Device device) {
    Work work;
    c.with_call(device, [&](const void* call) { work = c.contract().work(call); });
    return work;
}

}  // namespace

Bench::Bench(const Case& c, Device device, const BenchOptions& options, Stream stream)
    : case_(c),
      options_(options),
      own_stream_(stream.handle == nullptr ? std::optional(OwnedStream(device)) : std::nullopt),
      context_(device, own_stream_ ? own_stream_->get() : stream),
      info_(info_of(device, options.rates)),
      work_(work_of(c, device)),
      floor_us_(floor_us(work_, info_)),
      instance_(c, device, options.sample.seed, Values::usual),
      rotation_(instance_, Rotation::sets_for(
                               instance_, std::min(work_.bytes, static_cast<double>(instance_.footprint())),
                               3.0 * static_cast<double>(info_.l2_bytes))) {}

// weft through one entry of the op's list, or through the first that accepts.
Callable Bench::implementation(Side side, const std::string& only) {
    contexts_.push_back(std::make_unique<Context>(context_.device(), context_.stream()));
    Context* context = contexts_.back().get();
    for (const AnyImplementation& i : case_.op().implementations[static_cast<int>(context->device().type)]) {
        if (!only.empty() && i.name != only) context->avoid(i.name);
    }
    Callable callable;
    callable.side = side;
    callable.name = taken_by(case_, instance_.call(), *context);
    callable.call = [this, context](std::size_t set) {
        detail::run(case_.op(), rotation_[set].call(), *context);
    };
    return callable;
}

std::string Bench::chosen() { return implementation(Side::weft, options_.implementation).name; }

void Bench::add_weft() { callables_.push_back(implementation(Side::weft, options_.implementation)); }

void Bench::add_vendors() {
    const std::string name = chosen(), own = name.substr(0, name.find(' '));
    for (const Verdict& v : explain(case_.op(), instance_.call(), context_.info())) {
        const bool vendor =
            std::find(std::begin(kVendors), std::end(kVendors), v.implementation) != std::end(kVendors);
        if (vendor && v.reason.empty() && v.implementation != own)
            callables_.push_back(implementation(Side::baseline, v.implementation));
    }
}

void Bench::add_card() {
    for (Callable& callable : card_calls(context_, work_.bytes, 3.0 * static_cast<double>(info_.l2_bytes)))
        callables_.push_back(std::move(callable));
}

bool Bench::overwrites_inputs() const {
    for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
        const TensorSpec& spec = case_.tensors[i];
        if (spec.present && (spec.alias >= 0 || case_.contract().fields()[i].role == Role::inout))
            return true;
    }
    return false;
}

std::string Bench::compare(const Callable& callable, std::size_t set) {
    if (callable.check) return callable.check(set);
    if (callable.deliver) callable.deliver(set);
    synchronize(context_.device(), context_.stream());
    const Outcome outcome = reference_->compare(rotation_[set]);
    if (!outcome.passed || callable.side != Side::weft || !case_.contract().deterministic())
        return outcome.why;
    if (first_bits_ == 0) first_bits_ = outcome.bits;
    return outcome.bits == first_bits_ ? "" : "two calls gave different bits";
}

std::string Bench::check_first(const Callable& callable) {
    return guarded([&] {
        instance_.reset();
        callable.call(0);
        return compare(callable, 0);
    });
}

// What the last timed calls left in outputs that were poisoned before them; or, where calls overwrite their
// inputs, what one more call through a graph does.
std::string Bench::check_last(const Callable& callable, Sampler& sampler, Result& result) {
    return guarded([&]() -> std::string {
        for (const Cache cache : kCaches) {
            // What is too large to be compared whole is long to bring back, and hot only in name.
            if (cache == Cache::hot && !reference_->sampled().empty()) continue;
            const std::size_t set = overwrites_inputs() ? 0 : sampler.last_set(result, cache);
            rotation_[set].reset();
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
            const std::string why = compare(callable, set);
            if (!why.empty()) return "after timing: " + why;
        }
        return "";
    });
}

void Bench::summarize_times(Result& result) const {
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
std::string Bench::below_floor(const Result& result) const {
    const auto l2 = static_cast<double>(info_.l2_bytes);
    if (floor_us_ <= 0 || work_.bytes <= l2) return "";
    for (const Cache cache : kCaches) {
        Work least = work_;
        if (cache == Cache::hot) least.bytes -= l2;
        const double floor = floor_us(least, info_);
        const auto& timing = result.at(Time::device, cache);
        if (timing && timing->us.median < kFloorTolerance * floor) {
            return fmt::format("{:.2f} us ({}) is below the floor of {:.2f} us: not all of the work was done",
                               timing->us.median, name(cache), floor);
        }
    }
    return "";
}

Measurement Bench::run() {
    reference_.emplace(instance_, options_.reference, options_.sample.seed);
    Measurement m;
    m.work = work_;
    m.floor_us = floor_us_;
    m.checked_on = reference_->sampled();
    m.cold_sets = rotation_.sets();
    m.results.reserve(callables_.size() + 1);  // the sampler keeps their addresses
    for (const Callable& callable : callables_) {
        Result& result = m.results.emplace_back();
        result.name = callable.name;
        result.side = callable.side;
        result.computes = !callable.check;
        result.why = check_first(callable);
    }
    // The first baseline with a device time, else weft.
    std::size_t again = 0;
    for (std::size_t i = m.results.size(); i-- > 0;) {
        const Result& r = m.results[i];
        if (r.side == Side::baseline && r.computes && r.why.empty() && callables_[i].recordable) again = i;
    }
    if (!callables_.empty() && m.results[again].why.empty() && m.results[again].computes) {
        callables_.push_back(callables_[again]);
        callables_.back().side = Side::noise;
        m.results.emplace_back(m.results[again]).side = Side::noise;
    }
    Sampler sampler(context_, rotation_.sets(), options_.sample);
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
        if (result.why.empty() && result.computes) result.why = below_floor(result);
        result.checked = result.why.empty();
        if (!result.checked) reject(result, result.why);
    }
    return m;
}

}  // namespace weft
