// Measures one case: every callable checked, timed beside the others, and checked again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/contest.h"
#include "bench/rotation.h"
#include "verify/comparison.h"

namespace weft {

struct BenchOptions {
    SampleOptions sample;
    ReferenceLimits reference;
    std::string implementation;      // of weft; empty: the first that accepts
    bool tuned = true;               // weft's choices are timed before; else they are what a first call gets
    std::optional<CardRates> rates;  // instead of the device's own, for tests
};

// On the emulator and the CPU times are the host's, and say nothing of a GPU: only tests measure there.
class Bench : public Contest {
   public:
    // Owns the operands of every set. With a stream of the caller's, that one is used.
    Bench(const Case& c, Device device, const BenchOptions& options = {}, Stream stream = {});

    std::size_t sets() const override { return rotation_.sets(); }
    Instance& operands(std::size_t set) { return rotation_[set]; }

    std::string chosen();  // the implementation that weft takes, with its configuration
    void add_weft();
    // Another entry of the case's op, such as a rung of the ladder, under its implementation's name: beside weft, for
    // what accepts the case.
    void add_entry(const OpEntry& entry);
    // Vendors' libraries in the op's list, tuned, where weft takes another entry or the same one untuned.
    void add_vendors();
    // Why a baseline's result on a set is nothing that its framework's chain of operators may give; empty where it is.
    void allow_chain(std::function<std::string(std::size_t set)> chain) { chain_ = std::move(chain); }
    Measurement run() override;

   private:
    Callable implementation(Side side, const std::string& only);
    Callable entry(Side side, const OpEntry& entry, const std::string& only);
    void reset(std::size_t set) override { rotation_[set].reset(); }
    std::string compare(const Callable& callable, std::size_t set) override;
    std::optional<std::string> compare_chain(std::size_t set) override;
    bool overwrites_inputs() const override;
    std::string checked_on() const override { return reference_->sampled(); }

    Case case_;
    BenchOptions options_;
    Instance instance_;
    Rotation rotation_;
    std::optional<Reference> reference_;
    std::function<std::string(std::size_t set)> chain_;
    std::vector<std::unique_ptr<Context>> contexts_;  // one for each implementation
    std::size_t first_bits_ = 0;                      // a hash of weft's first result
};

}  // namespace weft
