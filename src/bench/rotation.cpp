// Laying out and filling the copies.
#include "bench/rotation.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

constexpr std::size_t kAlignment = 256, kMostSets = 8192;

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::size_t set_bytes(const Case& c, const Instance& instance) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < c.tensors.size(); ++i) bytes += padded(instance.initial(i).size());
    return bytes;
}

}  // namespace

Rotation::Rotation(const Case& c, const Instance& instance, std::size_t sets) {
    const Device device = instance.device();
    for (std::size_t set = 0; set < sets; ++set) {
        buffers_.emplace_back(device, set_bytes(c, instance));
        auto* at = static_cast<char*>(buffers_.back().data());
        std::vector<void*> bases(c.tensors.size(), nullptr);
        for (std::size_t i = 0; i < c.tensors.size(); ++i) {
            const std::size_t size = instance.initial(i).size();
            if (size == 0) continue;
            const Tensor& view = Contract::tensor(instance.call(), c.contract().fields()[i]);
            const auto* from = static_cast<const char*>(view.data) - instance.first_byte(i);
            copy_bytes(at, device, from, device, size);
            // first_byte counts the guard and the offset; bind() adds the offset itself.
            bases[i] = at + instance.first_byte(i) - bytes(c.tensors[i].dtype, c.tensors[i].offset);
            at += padded(size);
        }
        calls_.emplace_back(c.contract().size() / sizeof(std::max_align_t) + 1);
        c.bind(calls_.back().data(), bases, device);
    }
}

std::size_t Rotation::sets_for(const Case& c, const Instance& instance, double bytes) {
    const double each = std::max<double>(1, static_cast<double>(set_bytes(c, instance)));
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(bytes / each)), 1, kMostSets);
}

}  // namespace weft
