// Owned memory on any device, and copies between devices. Used around ops, never inside one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/stream.h"
#include "weft/tensor.h"

namespace weft {

// Memory of one device, 256-byte aligned, freed with the object. Emulator memory is host memory.
class Buffer {
   public:
    Buffer() = default;
    Buffer(Device device, std::size_t bytes);
    ~Buffer();
    Buffer(Buffer&& other) noexcept;
    Buffer& operator=(Buffer&& other) noexcept;

    void* data() const { return data_; }
    std::size_t size() const { return size_; }
    Device device() const { return device_; }

   private:
    void* data_ = nullptr;
    std::size_t size_ = 0;
    Device device_;
};

// A dense tensor with its memory.
struct OwnedTensor {
    Buffer buffer;
    Tensor view;
};
OwnedTensor allocate(DType dtype, std::span<const std::int64_t> shape, Device device);
inline OwnedTensor allocate(DType dtype, std::initializer_list<std::int64_t> shape, Device device) {
    return allocate(dtype, std::span(shape.begin(), shape.size()), device);
}

// Copies bytes between any two devices, and waits.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);
// Copies a dense tensor into another of the same dtype and number of elements, and waits.
void copy(const Tensor& to, const Tensor& from);
// Sets bytes on any device, and waits.
void fill_bytes(void* data, Device device, int byte, std::size_t bytes);

// Waits for all work on a stream of a device; throws what failed.
void synchronize(Device device, Stream stream = {});
// True while the stream records a graph.
bool is_capturing(Device device, Stream stream);

}  // namespace weft
