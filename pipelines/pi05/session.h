// One run of the prefix encoder from files to figures: load, calibrate, capture, check, time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "pipelines/pi05/encoder.h"

namespace weft {

struct SessionOptions {
    std::filesystem::path checkpoint, image, out;  // out: a safetensors file, empty for none
    Device device = kCpu;
    DType dtype = DType::bf16;
    Precision precision = Precision::full;
    std::int64_t views = 1, layers = 0, crop = 0;  // layers 0: all; crop 0: the whole image, else its centre
    std::vector<std::int64_t> prompt;
    std::vector<std::string> avoid;  // implementations to leave out
    int repeats = 0;                 // timed replays; 0: none
};

// Time and work of all steps with one label.
struct LabelTime {
    std::string label, op, implementation, config;  // the configuration of its first call
    int calls = 0;
    double us = 0, floor_us = 0;  // of all its calls
    double bytes = 0, flops = 0;
    DType math = DType::fp32;
};

struct SessionResult {
    GemmaConfig config;
    std::int64_t tokens = 0;
    std::vector<float> embeddings, output;  // [tokens, width]
    std::vector<double> samples_us;         // of the timed replays, sorted
    double launches_per_layer = 0;          // of the graph, the embedding and the final norm left out
    std::vector<LabelTime> labels;          // in order of first use; timed where repeats > 0
};

// `say` hears of each phase as it begins.
SessionResult run_session(const SessionOptions& options, const std::function<void(const std::string&)>& say);

// The steps that `device` would run, on tensors in host memory, with their floors: nothing is run, and no such device is
// needed. Of its implementations it knows weft's own, by the emulator's list; a vendor library may take some calls there.
std::vector<LabelTime> plan_session(const SessionOptions& options, const DeviceInfo& device);

// The value below which a share of sorted samples lies; 0 of none.
double quantile(const std::vector<double>& sorted, double share);

// How near one result is to another.
struct Closeness {
    double relative_error = 0;  // |a - b| / |b|
    double cosine = 0;
};
Closeness closeness(const std::vector<float>& result, const std::vector<float>& reference);

}  // namespace weft
