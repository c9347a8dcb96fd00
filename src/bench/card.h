// The card itself: kernels that do nothing, copy, read and multiply, and the rates that they reach.
#pragma once

#include <cstdint>

#include "weft/context.h"

namespace weft {

inline constexpr int kReadSums = 1024;  // words

// Each queues one kernel, launched as the ops' kernels are. Sizes are multiples of 16 bytes.
struct CardKernels {
    void (*nothing)(Context&) = nullptr;
    void (*copy)(void* to, const void* from, std::int64_t bytes, Context&) = nullptr;
    // Adds the sum of all 32-bit words to `sums`, spread over them.
    void (*read)(const void* from, std::int64_t bytes, std::uint32_t* sums, Context&) = nullptr;
    // `rounds` times 16 multiply-adds in every thread that the card can hold; returns how many operations.
    double (*multiply_add)(float* out, int rounds, Context&) = nullptr;
};

// By DeviceType; the kernels' translation units fill it in.
inline CardKernels& card_kernels(DeviceType type) {
    static CardKernels kernels[3];
    return kernels[static_cast<int>(type)];
}

// What the card reaches, measured here once a process: copy and read bandwidth, multiply-adds outside the
// matrix units, an empty kernel in a graph, and matrix products of zeros (no power limit holds those, so that
// no product of data is faster). All 0 where times are not a GPU's.
struct CardRates {
    double copy_tbps = 0, read_tbps = 0, half_tflops = 0, fp8_tflops = 0, fp32_tflops = 0, launch_us = 0;
};
const CardRates& card_rates(Device device);

// The device with measured rates in place of the table's.
DeviceInfo with_rates(const DeviceInfo& device, const CardRates& rates);

}  // namespace weft
