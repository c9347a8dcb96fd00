// Measurements for people.
#pragma once

#include <string>
#include <vector>

#include "bench/measurement.h"
#include "weft/device_info.h"

namespace weft {

// A case's floor, and a line for every callable with its times, its share of the floor and how weft compares.
std::string measurement_text(const std::string& title, const Measurement& m, const DeviceInfo& device);

// How weft compares over many cases: against the fastest baseline that passed in each, by device time with
// cold caches. A win or a loss is counted only where the p10-p90 intervals do not overlap.
class Summary {
   public:
    void add(const std::string& title, const Measurement& m);
    std::string text() const;
    // Of sampled cases: geometric mean, 10th percentile, the share under 0.9 and the worst ten, of the ratios to
    // the fastest baseline, or of the shares of the floor.
    std::string distribution(bool of_floor) const;

   private:
    struct Entry {
        std::string title, rival;
        double ratio;
        bool level;
    };
    std::vector<Entry> floors_;
    std::vector<Entry> entries_;
    int cases_ = 0, wrong_ = 0;
};

}  // namespace weft
