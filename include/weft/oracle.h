// What a reference writes through: the rounded result into the tensor and, for verification, the value before
// rounding with the error that a correct fp32 implementation may have made.
#pragma once

#include <cstdint>
#include <vector>

#include "weft/tensor.h"

namespace weft {

inline constexpr double kEps32 = 0x1p-24;  // half an ulp of fp32, relative

class Oracle {
   public:
    // Of one output: by element offset from its data pointer.
    struct Record {
        const void* data = nullptr;
        std::vector<double> value, error;
        std::vector<bool> written;
    };

    // As an error: correct fp32 arithmetic may come to any value there, NaN as well (0 · infinity, where the 0
    // is one by rounding only).
    static constexpr double kUndetermined = -1;

    explicit Oracle(bool recording = false) : recording_(recording) {}
    bool recording() const { return recording_; }

    // Whether results come from hardware, whose approximate instructions are off by what their manual says; the CPU and
    // the emulator compute them exactly but for a rounding.
    void set_hardware(bool hardware) { hardware_ = hardware; }
    bool hardware() const { return hardware_; }

    // A verifier may ask for one part in so many only: long references leave out the parts of the output (an
    // element, a row: by any number of theirs) that are not wanted, and store nothing there.
    void sample(std::int64_t one_in) { one_in_ = one_in; }
    bool sampled() const { return one_in_ > 1; }
    bool wants(std::int64_t part) const {
        constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;
        return one_in_ <= 1 ||
               (static_cast<std::uint64_t>(part) * kSpread >> 20) % static_cast<std::uint64_t>(one_in_) == 0;
    }

    // Writes `value` rounded to the tensor's dtype at an element offset. An implementation is right if its
    // element lies between the rounded `value - error` and the rounded `value + error`.
    void store(const Tensor& tensor, std::int64_t offset, double value, double error = 0) {
        store_element(tensor.dtype, tensor.data, offset, value);
        if (recording_) record(tensor, offset, value, error);
    }
    // Writes an exact integer or code.
    void store_exact(const Tensor& tensor, std::int64_t offset, std::int64_t value);

    const Record* find(const void* data) const;

   private:
    void record(const Tensor& tensor, std::int64_t offset, double value, double error);
    bool recording_, hardware_ = true;
    std::int64_t one_in_ = 1;
    std::vector<Record> records_;
};

}  // namespace weft
