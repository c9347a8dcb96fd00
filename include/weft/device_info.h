// What dispatch and the roofline need to know of a device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor.h"

namespace weft {

struct DeviceInfo {
    std::string name;  // "NVIDIA H200", "emulator", "cpu"
    DeviceType type = DeviceType::cpu;
    int arch = 0;              // compute capability * 10: 90 for sm_90; 0 on the CPU
    int sms = 1;               // multiprocessors
    int shared_per_block = 0;  // bytes a block may opt in to
    int shared_per_sm = 0;     // bytes
    long l2_bytes = 0;
    int max_cluster = 1;  // blocks a cluster may hold; above 8 it is not portable
    // Rates for floors. For named devices: measured where weft's evidence has them, else the data sheet's.
    double copy_tbps = 0, read_tbps = 0;     // TB/s of large copies (both directions counted) and reads
    double half_tflops = 0, fp8_tflops = 0;  // dense matrix rate
    double fp32_tflops = 0;                  // outside the matrix units
    double launch_us = 0;                    // an empty kernel in a graph
};

// The device as it is here; queried once and cached. Throws cuda where there is none.
const DeviceInfo& device_info(Device device);

// A device by short name, for `explain` and tests: "h100", "h200", "a100", "rtx4090", "b200", "rtx5090".
const DeviceInfo* find_device(std::string_view name);
std::vector<std::string> device_names();

// CUDA devices that this process can use (0 without a driver, and in builds without CUDA).
int cuda_device_count();

}  // namespace weft
