// A non-owning, strided view of an array.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "weft/dtype.h"

namespace weft {

enum class DeviceType : std::uint8_t { cpu, cuda, emulator };

const char* name(DeviceType type);

struct Device {
    DeviceType type = DeviceType::cpu;
    int index = 0;
    friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{DeviceType::cpu, 0};
inline constexpr Device kEmulator{DeviceType::emulator, 0};  // host memory that emulated kernels work on
inline constexpr Device kCuda{DeviceType::cuda, 0};

inline constexpr int kMaxRank = 6;
// Elements, and how far strides may reach: beyond any memory, and no product of sizes and strides overflows.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
// Do a shape and its strides (empty: dense) pass kMostElements? Axes of no element count as one.
bool is_too_large(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride);

// `data` points at element (0, …, 0). Shapes and strides count elements, also for fp4. A default-constructed
// tensor is absent: that is how an op's optional field is left out.
struct Tensor {
    void* data = nullptr;
    DType dtype = DType::fp32;
    Device device;
    int rank = -1;
    std::int64_t shape[kMaxRank] = {};
    std::int64_t stride[kMaxRank] = {};

    Tensor() = default;
    // A dense, row-major view. Throws where it is too large.
    Tensor(void* data, DType dtype, std::span<const std::int64_t> shape, Device device = kCpu);
    Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape, Device device = kCpu)
        : Tensor(data, dtype, std::span(shape.begin(), shape.size()), device) {}
    Tensor(void* data, DType dtype, std::span<const std::int64_t> shape, std::span<const std::int64_t> stride,
           Device device = kCpu);

    explicit operator bool() const { return rank >= 0; }  // present?

    std::int64_t numel() const;
    std::int64_t dim(int axis) const { return shape[axis < 0 ? rank + axis : axis]; }
    // Elements in memory: those that a stride of 0 repeats count once.
    std::int64_t distinct() const;
    // Elements from the first to one past the last that the view touches; 0 if it is empty.
    std::int64_t span() const;
    bool is_dense() const;

    template <class T>
    T* as() const {
        return static_cast<T*>(data);
    }

    // The address of an element, by its offset. Throws where two elements share a byte and this is the second.
    void* at(std::int64_t offset) const;
    // The sub-view [begin, end) along an axis.
    Tensor slice(int axis, std::int64_t begin, std::int64_t end) const;
    // The same elements of a dense tensor in another shape.
    Tensor reshape(std::initializer_list<std::int64_t> shape) const;
};

// "bf16[4096,3072]", with "{strides}" where the tensor is not dense.
std::string to_string(const Tensor& tensor);

// The leading axes of a tensor folded into rows of one stride, the last axis being the row.
struct Rows {
    std::int64_t rows = 0, dim = 0, stride = 0;
};
// Nothing where the leading axes do not fold, or the last axis is not contiguous.
std::optional<Rows> fold_rows(const Tensor& tensor);

}  // namespace weft
