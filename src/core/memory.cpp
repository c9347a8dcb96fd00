// Buffers, copies and the context's scratch, for every kind of device.
#include "weft/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/cuda_api.h"
#include "weft/context.h"
#include "weft/error.h"

namespace weft {
namespace {

constexpr std::size_t kAlignment = 256;

void* allocate_raw(Device device, std::size_t bytes) {
    if (bytes == 0) return nullptr;
    const cuda::DeviceGuard guard(device);
    if (device.type == DeviceType::cuda) return cuda::api().allocate(bytes);
    void* data =
        nullptr;  // posix_memalign keeps the exact size, so AddressSanitizer sees the first byte past it
    if (posix_memalign(&data, kAlignment, bytes) != 0) {
        throw Error(ErrorCode::internal, "", "", fmt::format("out of memory allocating {} bytes", bytes));
    }
    return data;
}

void release_raw(Device device, void* data) noexcept {
    if (data == nullptr) return;
    device.type == DeviceType::cuda ? cuda::api().release(data) : std::free(data);
}

bool is_host(Device device) { return device.type != DeviceType::cuda; }

}  // namespace

Buffer::Buffer(Device device, std::size_t bytes)
    : data_(allocate_raw(device, bytes)), size_(bytes), device_(device) {}
Buffer::~Buffer() { release_raw(device_, data_); }
Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }
Buffer& Buffer::operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(device_, other.device_);
    return *this;
}

OwnedTensor allocate(DType dtype, std::span<const std::int64_t> shape, Device device) {
    Tensor view(nullptr, dtype, shape, device);
    Buffer buffer(device, static_cast<std::size_t>(bytes(dtype, view.numel())));
    view.data = buffer.data();
    return {std::move(buffer), view};
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
    if (bytes == 0) return;
    if (is_host(to_device) && is_host(from_device)) {
        std::memcpy(to, from, bytes);
    } else {
        const cuda::DeviceGuard guard(is_host(to_device) ? from_device : to_device);
        cuda::api().copy(to, from, bytes);
    }
}

void copy(const Tensor& to, const Tensor& from) {
    if (to.dtype != from.dtype || to.numel() != from.numel() || !to.is_dense() || !from.is_dense()) {
        throw Error(ErrorCode::invalid_argument, "copy", "",
                    fmt::format("{} can't be copied to {}", to_string(from), to_string(to)));
    }
    copy_bytes(to.data, to.device, from.data, from.device,
               static_cast<std::size_t>(bytes(from.dtype, from.numel())));
}

void fill_bytes(void* data, Device device, int byte, std::size_t bytes) {
    if (bytes == 0) return;
    const cuda::DeviceGuard guard(device);
    if (is_host(device)) {
        std::memset(data, byte, bytes);
        return;
    }
    // CUDA fills device memory behind the call's back, and in no order with the streams of other libraries.
    cuda::api().fill(data, byte, bytes);
    cuda::api().synchronize(nullptr);
}

void synchronize(Device device, Stream stream) {
    const cuda::DeviceGuard guard(device);
    if (!is_host(device)) cuda::api().synchronize(stream.handle);
}

bool is_capturing(Device device, Stream stream) {
    const cuda::DeviceGuard guard(device);
    return !is_host(device) && cuda::api().is_capturing(stream.handle);
}

Context::Context(Device device, Stream stream)
    : device_(device), stream_(stream), info_(&device_info(device)) {}
Context::~Context() { release_raw(device_, scratch_); }
Context::Context(Context&& other) noexcept
    : device_(other.device_),
      stream_(other.stream_),
      info_(other.info_),
      avoided_(std::move(other.avoided_)),
      tuning_(other.tuning_),
      plans_(std::move(other.plans_)),
      scratch_(std::exchange(other.scratch_, nullptr)),
      scratch_bytes_(std::exchange(other.scratch_bytes_, 0)),
      slots_(std::move(other.slots_)),
      scratch_asked_(std::exchange(other.scratch_asked_, 0)) {}
Context& Context::operator=(Context&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    std::swap(info_, other.info_);
    std::swap(avoided_, other.avoided_);
    std::swap(tuning_, other.tuning_);
    std::swap(plans_, other.plans_);
    std::swap(scratch_, other.scratch_);
    std::swap(scratch_bytes_, other.scratch_bytes_);
    std::swap(slots_, other.slots_);
    std::swap(scratch_asked_, other.scratch_asked_);
    return *this;
}

void* Context::scratch(std::size_t bytes) {
    scratch_asked_ = std::max(scratch_asked_, bytes);
    if (bytes <= scratch_bytes_) return scratch_;
    if (is_capturing(device_, stream_)) {
        throw Error(
            ErrorCode::unsupported, "", "scratch",
            fmt::format(
                "{} bytes are needed while the stream is captured, and {} are there: run the call once "
                "on the same stream before capturing it",
                bytes, scratch_bytes_));
    }
    if (scratch_ != nullptr) synchronize(device_, stream_);  // queued work may still use the old memory
    release_raw(device_, std::exchange(scratch_, nullptr));
    scratch_bytes_ = 0;
    scratch_ = allocate_raw(device_, bytes);
    scratch_bytes_ = bytes;
    return scratch_;
}

void Context::finish() {
    if (scratch_ != nullptr) synchronize(device_, stream_);
}

}  // namespace weft
