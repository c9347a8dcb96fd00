// What computes one problem, checked and timed side by side: the order of checking and timing.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/card.h"
#include "bench/sampler.h"

namespace weft {

// A heir owns the operands, in several sets of the same contents, and knows a right result.
class Contest {
   public:
    // With a stream of the caller's, that one is used; with rates, those instead of the device's own.
    Contest(Device device, Stream stream, const Work& work, const SampleOptions& options,
            const std::optional<CardRates>& rates = {});
    Contest(const Contest&) = delete;  // callables hold its address
    Contest& operator=(const Contest&) = delete;
    virtual ~Contest() = default;

    virtual std::size_t sets() const = 0;
    Context& context() { return context_; }
    const DeviceInfo& info() const { return info_; }  // with the card's measured rates

    void add(Callable callable) { callables_.push_back(std::move(callable)); }
    void add_card();  // copying, reading and doing nothing

    // All that was added, and the best-known baseline (or the first of all) once more as noise.
    virtual Measurement run();

   protected:
    // A set as before its first call: outputs poisoned, what is updated in place restored.
    virtual void reset(std::size_t set) = 0;
    // What is wrong with a callable's result on a set that the device is done with; empty where it is right.
    virtual std::string compare(const Callable& callable, std::size_t set) = 0;
    // The same of a baseline by what a framework's chain of operators may give, which rounds between its steps;
    // nothing where there is no such chain.
    virtual std::optional<std::string> compare_chain(std::size_t) { return std::nullopt; }
    virtual bool overwrites_inputs() const = 0;
    // Which parts of the outputs are compared; empty: all of them.
    virtual std::string checked_on() const = 0;

    // How many sets of so many bytes cold calls go round.
    std::size_t cold_sets(double footprint) const;

   private:
    double rotated_bytes() const { return 3.0 * static_cast<double>(info_.l2_bytes); }  // of cold operands
    std::string check(const Callable& callable, std::size_t set, Result& result);
    std::string check_first(const Callable& callable, Result& result);
    std::string check_last(const Callable& callable, Sampler& sampler, Result& result);
    void add_noise(Measurement& m);

    std::optional<OwnedStream> own_stream_;
    Context context_;
    DeviceInfo info_;
    Work work_;
    SampleOptions sample_;
    std::vector<Callable> callables_;
};

}  // namespace weft
