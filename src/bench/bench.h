// Measures one case: every callable checked, timed beside the others, and checked again.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/card.h"
#include "bench/rotation.h"
#include "bench/sampler.h"
#include "verify/comparison.h"

namespace weft {

struct BenchOptions {
    SampleOptions sample;
    ReferenceLimits reference;
    std::string implementation;      // of weft; empty: the first that accepts
    std::optional<CardRates> rates;  // instead of the device's own, for tests
};

// On the emulator and the CPU times are the host's, and say nothing of a GPU: only tests measure there.
class Bench {
   public:
    // Owns the operands of every set. With a stream of the caller's, that one is used.
    Bench(const Case& c, Device device, const BenchOptions& options = {}, Stream stream = {});
    Bench(const Bench&) = delete;  // callables hold its address
    Bench& operator=(const Bench&) = delete;

    std::size_t sets() const { return rotation_.sets(); }
    Instance& operands(std::size_t set) { return rotation_[set]; }
    Context& context() { return context_; }

    void add(Callable callable) { callables_.push_back(std::move(callable)); }
    std::string chosen();  // the implementation that weft takes, with its configuration
    void add_weft();
    void add_vendors();  // vendors' libraries in the op's list, where weft takes another entry
    void add_card();     // copying, reading and doing nothing

    // All that was added, and the best-known baseline (or weft alone) once more as noise.
    Measurement run();

   private:
    Callable implementation(Side side, const std::string& only);
    std::string check_first(const Callable& callable);
    std::string check_last(const Callable& callable, Sampler& sampler, Result& result);
    std::string compare(const Callable& callable, std::size_t set);
    bool overwrites_inputs() const;
    void summarize_times(Result& result) const;
    std::string below_floor(const Result& result) const;

    Case case_;
    BenchOptions options_;
    std::optional<OwnedStream> own_stream_;
    Context context_;
    DeviceInfo info_;  // with the card's measured rates
    Work work_;
    double floor_us_ = 0;
    Instance instance_;
    Rotation rotation_;
    std::optional<Reference> reference_;
    std::vector<Callable> callables_;
    std::vector<std::unique_ptr<Context>> contexts_;  // one for each implementation
    std::size_t first_bits_ = 0;                      // a hash of weft's first result
};

}  // namespace weft
