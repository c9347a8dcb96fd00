// Instance: memory, filling, poison.
#include "verify/instance.h"

#include <algorithm>

namespace weft {
namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Instance::Instance(const Case& c, Device device, std::uint64_t seed, Drawing drawing, int poison)
    : case_(c), device_(device), poison_(poison) {
    const AxisSizes sizes = c.check();
    Contents contents(c.tensors.size());
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const TensorSpec& spec = c.tensors[i];
        if (!spec.present || spec.alias >= 0) continue;
        const auto size = static_cast<std::size_t>(weft::bytes(spec.dtype, spec.span()));
        contents[i].assign(size + 2 * guard(), static_cast<std::byte>(poison));
        if (c.contract().fields()[i].keeps() && size > 0) {
            const Field& field = c.contract().fields()[i];
            draw_input(field, spec.over(contents[i].data() + guard(), kCpu), field.fill.limit_of(sizes),
                       drawing, Random(seed, i));
        }
    }
    initial_ = std::make_shared<const Contents>(std::move(contents));
    bind();
}

Instance::Instance(const Instance& like, void* memory)
    : case_(like.case_), device_(like.device_), poison_(like.poison_), initial_(like.initial_) {
    auto* at = static_cast<char*>(memory);
    for (const auto& contents : *initial_) {
        void* own = contents.empty() ? nullptr : at;
        copy_bytes(own, device_, like.memory_[memory_.size()], device_, contents.size());
        memory_.push_back(own);
        at += padded(contents.size());
    }
    bind();
}

std::size_t Instance::footprint() const {
    std::size_t bytes = 0;
    for (const auto& contents : *initial_) bytes += padded(contents.size());
    return bytes;
}

// Memory of its own unless it was given some, and the op struct over it.
void Instance::bind() {
    const bool own = memory_.empty();
    std::vector<void*> bases(initial_->size(), nullptr);
    for (std::size_t i = 0; i < bases.size(); ++i) {
        if (own) {
            buffers_.emplace_back(device_, (*initial_)[i].size());
            memory_.push_back(buffers_.back().data());
            upload(i);
        }
        if (memory_[i] != nullptr) bases[i] = static_cast<char*>(memory_[i]) + guard();
    }
    call_.resize(case_.contract().size() / sizeof(std::max_align_t) + 1);
    case_.bind(call_.data(), bases, device_);
}

void Instance::upload(std::size_t field) {
    copy_bytes(memory_[field], device_, (*initial_)[field].data(), kCpu, (*initial_)[field].size());
}

void Instance::reset() {
    const auto& fields = case_.contract().fields();
    std::vector<bool> written(memory_.size());
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        const TensorSpec& spec = case_.tensors[i];
        if (spec.present && fields[i].writes())
            written[spec.alias < 0 ? i : static_cast<std::size_t>(spec.alias)] = true;
    }
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        if (!written[i]) continue;
        if (fields[i].keeps()) {
            upload(i);
        } else {
            fill_bytes(memory_[i], device_, poison_, (*initial_)[i].size());
        }
    }
}

void Instance::run(Context& context) const {
    detail::run(case_.op(), call_.data(), context);
    synchronize(device_, context.stream());
}

void Instance::read(std::size_t field, std::vector<std::byte>& into) const {
    into.resize((*initial_)[field].size());
    copy_bytes(into.data(), kCpu, memory_[field], device_, into.size());
}

std::size_t Instance::first_byte(std::size_t field) const {
    return guard() +
           static_cast<std::size_t>(weft::bytes(case_.tensors[field].dtype, case_.tensors[field].offset));
}

}  // namespace weft
