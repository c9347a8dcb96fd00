// Tensor views: construction, folding, slicing, printing.
#include "weft/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "weft/error.h"

namespace weft {

const char* name(DeviceType type) {
    switch (type) {
        case DeviceType::cpu: return "cpu";
        case DeviceType::cuda: return "cuda";
        case DeviceType::emulator: return "emulator";
    }
    return "?";
}

bool is_too_large(std::span<const std::int64_t> shape, std::span<const std::int64_t> stride) {
    double elements = 1, reach = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto size = static_cast<double>(std::max<std::int64_t>(1, shape[i]));
        elements *= size;
        if (!stride.empty()) reach += (size - 1) * std::abs(static_cast<double>(stride[i]));
    }
    return std::max(elements, reach) > static_cast<double>(kMostElements);
}

Tensor::Tensor(void* data, DType dtype, std::span<const std::int64_t> shape, Device device)
    : data(data), dtype(dtype), device(device), rank(static_cast<int>(shape.size())) {
    if (shape.size() > kMaxRank) {
        throw Error(ErrorCode::invalid_argument, "", "tensor",
                    fmt::format("rank {} exceeds {}", shape.size(), kMaxRank));
    }
    if (is_too_large(shape, {})) {
        throw Error(ErrorCode::invalid_argument, "", "tensor",
                    fmt::format("[{}] is too large", fmt::join(shape, ",")));
    }
    std::copy(shape.begin(), shape.end(), this->shape);
    std::int64_t dense = 1;
    for (int i = rank - 1; i >= 0; --i) {
        stride[i] = dense;
        dense *= std::max<std::int64_t>(1, this->shape[i]);
    }
}

Tensor::Tensor(void* data, DType dtype, std::span<const std::int64_t> shape,
               std::span<const std::int64_t> stride, Device device)
    : Tensor(data, dtype, shape, device) {
    if (stride.size() != shape.size()) {
        throw Error(ErrorCode::invalid_argument, "", "tensor",
                    fmt::format("{} strides for {} axes", stride.size(), shape.size()));
    }
    std::copy(stride.begin(), stride.end(), this->stride);
}

std::int64_t Tensor::numel() const {
    std::int64_t n = rank < 0 ? 0 : 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
}

std::int64_t Tensor::distinct() const {
    std::int64_t n = rank < 0 ? 0 : 1;
    for (int i = 0; i < rank; ++i) n *= stride[i] == 0 && shape[i] > 0 ? 1 : shape[i];
    return n;
}

std::int64_t Tensor::span() const {
    if (numel() == 0) return 0;
    std::int64_t last = 0;
    for (int i = 0; i < rank; ++i) last += (shape[i] - 1) * stride[i];
    return last + 1;
}

bool Tensor::is_dense() const {
    if (std::count(shape, shape + std::max(rank, 0), 0) > 0) return true;  // no element is out of place
    std::int64_t dense = 1;
    for (int i = rank - 1; i >= 0; --i) {
        if (shape[i] != 1 && stride[i] != dense) return false;
        dense *= shape[i];
    }
    return true;
}

Tensor Tensor::slice(int axis, std::int64_t begin, std::int64_t end) const {
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || begin < 0 || end < begin || end > shape[axis]) {
        throw Error(ErrorCode::invalid_argument, "", "tensor",
                    fmt::format("slice [{}, {}) of axis {} of {}", begin, end, axis, to_string(*this)));
    }
    Tensor part = *this;
    part.shape[axis] = end - begin;
    part.data = at(begin * stride[axis]);
    return part;
}

void* Tensor::at(std::int64_t offset) const {
    if (offset * bits(dtype) % 8 != 0) {
        throw Error(ErrorCode::invalid_argument, "", "tensor",
                    fmt::format("element {} of {} starts inside a byte", offset, to_string(*this)));
    }
    return static_cast<char*>(data) + offset * bits(dtype) / 8;
}

Tensor Tensor::reshape(std::initializer_list<std::int64_t> shape) const {
    const Tensor view(data, dtype, shape, device);
    if (!is_dense() || view.numel() != numel()) {
        throw Error(ErrorCode::invalid_argument, "", "tensor",
                    fmt::format("{} can't be viewed as [{}]", to_string(*this), fmt::join(shape, ",")));
    }
    return view;
}

std::string to_string(const Tensor& tensor) {
    if (!tensor) return "absent";
    const std::span shape(tensor.shape, static_cast<std::size_t>(tensor.rank));
    std::string text = fmt::format("{}[{}]", name(tensor.dtype), fmt::join(shape, ","));
    if (!tensor.is_dense()) {
        const std::span stride(tensor.stride, static_cast<std::size_t>(tensor.rank));
        text += fmt::format("{{{}}}", fmt::join(stride, ","));
    }
    return text;
}

std::optional<Rows> fold_rows(const Tensor& tensor) {
    if (tensor.rank < 1) return std::nullopt;
    const int last = tensor.rank - 1;
    const std::int64_t dim = tensor.shape[last];
    if (dim > 1 && tensor.stride[last] != 1) return std::nullopt;
    Rows rows{1, dim, dim};
    bool first = true;
    std::int64_t expected = 0;
    for (int i = last - 1; i >= 0; --i) {
        rows.rows *= tensor.shape[i];
        if (tensor.shape[i] == 1) continue;
        if (first) {
            rows.stride = tensor.stride[i];
            first = false;
        } else if (tensor.stride[i] != expected) {
            return tensor.numel() == 0 ? std::optional(Rows{0, dim, dim}) : std::nullopt;
        }
        expected = tensor.stride[i] * tensor.shape[i];
    }
    return rows;
}

}  // namespace weft
