// What the ops' own tests share: host tensors with memory, messages of rejected cases, configurations by
// device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/case.h"
#include "weft/device_info.h"

namespace weft::test {

// "accepted", or the message that the case line is rejected with.
inline std::string rejection(const std::string& line) {
    try {
        Case::parse(line).check();
    } catch (const Error& e) {
        return e.what();
    }
    return "accepted";
}
// The same of a line that leaves outputs open.
inline std::string open_rejection(const std::string& line) {
    try {
        Case c = Case::parse(line);
        c.infer();
        return rejection(c.line());
    } catch (const Error& e) {
        return e.what();
    }
}

// The message that running `op` ends with, or "ran".
template <class Op>
std::string failure(const Op& op) {
    try {
        run(op);
    } catch (const Error& e) {
        return e.what();
    }
    return "ran";
}

// The CPU, and the emulator where this build has it: both work on host memory.
inline std::vector<Device> host_devices() {
#if WEFT_HAS_EMULATOR
    return {kCpu, kEmulator};
#else
    return {kCpu};
#endif
}

// What the kernels' policy says of a case on a named device; "" without kernels in this build.
inline std::string configuration(const std::string& line, const char* device = "h200") {
    std::string config;
    Case c = Case::parse(line);
    DeviceInfo info = *find_device(device);
    info.type = DeviceType::emulator;  // the same policy as the GPU's, in every build with kernels
    c.with_call(kEmulator, [&](const void* call) {
        for (const Verdict& v : explain(c.op(), call, info)) {
            if (v.reason.empty() && config.empty()) config = v.implementation + ": " + v.config;
        }
    });
    return config;
}

// A dense tensor in host memory, with bytes before and after it that are no zeros.
class HostTensor {
   public:
    HostTensor(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values = {})
        : dtype_(dtype), shape_(std::move(shape)) {
        std::int64_t n = 1;
        for (const std::int64_t size : shape_) n *= size;
        const auto size = static_cast<std::size_t>(bytes(dtype, n));
        memory_.assign(size + 2 * kSpare, 0xff);
        std::fill_n(memory_.begin() + kSpare, size, 0);
        for (std::size_t i = 0; i < values.size(); ++i) set(static_cast<std::int64_t>(i), values[i]);
    }

    Tensor on(Device device) { return Tensor(data(), dtype_, shape_, device); }
    double operator[](std::int64_t i) const {
        return is_floating(dtype_) ? load_element(dtype_, data(), i)
                                   : static_cast<double>(load_integer(dtype_, data(), i));
    }
    void set(std::int64_t i, double value) {
        if (is_floating(dtype_)) {
            store_element(dtype_, data(), i, value);
        } else {
            store_integer(dtype_, data(), i, static_cast<std::int64_t>(value));
        }
    }
    bool operator==(const HostTensor& other) const { return memory_ == other.memory_; }

   private:
    static constexpr std::size_t kSpare = 64;

    unsigned char* data() { return memory_.data() + kSpare; }
    const unsigned char* data() const { return memory_.data() + kSpare; }

    DType dtype_;
    std::vector<std::int64_t> shape_;
    std::vector<unsigned char> memory_;  // of operator new: aligned to 16 bytes
};

}  // namespace weft::test
