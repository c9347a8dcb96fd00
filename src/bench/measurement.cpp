// Names and choices.
#include "bench/measurement.h"

namespace weft {

const char* name(Side side) {
    return side == Side::weft ? "weft" : side == Side::baseline ? "baseline" : "noise";
}
const char* name(Time time) { return time == Time::device ? "device" : "eager"; }
const char* name(Cache cache) { return cache == Cache::cold ? "cold" : "hot"; }

const Result* Measurement::weft() const {
    for (const Result& r : results) {
        if (r.side == Side::weft) return &r;
    }
    return nullptr;
}

const Result* Measurement::best(Time t, Cache c) const {
    const Result* best = nullptr;
    for (const Result& r : results) {
        if (r.side != Side::baseline || !r.computes || !r.at(t, c)) continue;
        if (best == nullptr || r.at(t, c)->us.median < best->at(t, c)->us.median) best = &r;
    }
    return best;
}

}  // namespace weft
