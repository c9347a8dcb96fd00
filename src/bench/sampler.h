// Interleaved samples: every callable, time and cache state in a new random order each round.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/gpu_clock.h"
#include "bench/measurement.h"
#include "weft/graph.h"

namespace weft {

struct SampleOptions {
    int rounds = 15;          // samples of each
    double replay_us = 2000;  // a sample is of enough calls to take so long
    std::uint64_t seed = 0;
    bool eager = true;
    // Of one side in one state of the caches: what takes longer than so many seconds gets fewer samples, but three.
    double most_s = 1e9;
};

class Sampler {
   public:
    // `sets`: how many operand sets cold calls go round; hot ones stay on the first.
    Sampler(Context& context, std::size_t sets, const SampleOptions& options);

    // Records a callable's graphs. It must have been called before: plans are chosen, scratch has its size.
    void add(const Callable& callable, Result& into);
    void run();
    // One more sample, of the device's time where there is one, for the sake of its outputs; and, before it,
    // the set that its last call will work on.
    void last_sample(Result& of, Cache cache);
    std::size_t last_set(const Result& of, Cache cache) const;
    // How many of `sets` cold calls that take so long each go round. Of thousands of sets a call has few bytes; if it
    // works on them for long, it does not matter where they were: reading them from memory is less than a thousandth of its time.
    static std::size_t sets_of(double once_us, std::size_t sets);

   private:
    struct Entry {
        Callable callable;
        Result* result = nullptr;
        Time time = Time::device;
        Cache cache = Cache::cold;
        std::size_t sets = 1, calls = 1;
        std::size_t samples = 1;                 // how many are wanted
        double us = 0;                           // that one takes, about
        std::function<void()> replay = nullptr;  // of device time
    };
    Entry make(const Callable& callable, Result& into, Time time, Cache cache, double once_us);
    void sample(Entry& entry);
    double eager_us(const Entry& entry);
    double once_us(const Callable& callable, Time time);  // that a call takes, about
    std::size_t calls_of(double once_us, Time time, std::size_t sets) const;

    Context* context_;
    std::size_t sets_;
    SampleOptions options_;
    GpuClock clock_;
    std::vector<Entry> entries_;
};

}  // namespace weft
