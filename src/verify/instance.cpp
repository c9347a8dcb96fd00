// Instance: memory, filling, poison.
#include "verify/instance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "verify/random.h"

namespace weft {
namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

double shaped(double value, Values values, Random& random) {
    switch (values) {
        case Values::usual: return value;
        case Values::wide: return value * std::exp2(static_cast<double>(random.below(17)) - 8);
        case Values::tiny: return value * 0x1p-20;
        case Values::constant: return 0.75;
        case Values::special: {
            constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                                           std::numeric_limits<double>::infinity(),
                                           -std::numeric_limits<double>::infinity(), -0.0};
            return random.below(400) == 0 ? kSpecial[random.below(4)] : value;
        }
    }
    return value;
}

double draw(const Fill& fill, Values values, Random& random) {
    switch (fill.kind) {
        case Fill::Kind::normal: return shaped(fill.low + fill.high * random.normal(), values, random);
        case Fill::Kind::uniform:
        case Fill::Kind::scale: return fill.low + (fill.high - fill.low) * random.uniform();
        default: return 0;
    }
}

std::int64_t draw_integer(const Fill& fill, const Contract& contract, const AxisSizes& sizes, DType dtype,
                          Random& random) {
    switch (fill.kind) {
        case Fill::Kind::index: {
            const auto axis = static_cast<std::size_t>(contract.axes().find(fill.below));
            return random.below(std::max<std::int64_t>(1, sizes.size[axis]));
        }
        case Fill::Kind::positions: return random.below(static_cast<std::int64_t>(fill.high));
        case Fill::Kind::mask: return random.below(4) == 0 ? 0 : 1;
        case Fill::Kind::uniform:
            return static_cast<std::int64_t>(fill.low) +
                   random.below(static_cast<std::int64_t>(fill.high - fill.low) + 1);
        default: return random.below(dtype == DType::uint8 ? 256 : 200) - (dtype == DType::uint8 ? 0 : 100);
    }
}

// Element i gets code i modulo their number.
void fill_codes(const Tensor& view, const std::vector<std::uint64_t>& codes) {
    const auto width = static_cast<std::size_t>(bits(view.dtype)) / 8;
    if (width == 0) {  // two elements a byte
        std::size_t next = 0;
        for_each_offset(view, [&](std::int64_t i) {
            store_element(view.dtype, view.data, i, decode(view.dtype, codes[next++ % codes.size()]));
        });
        return;
    }
    std::vector<char> packed(codes.size() * width);
    for (std::size_t i = 0; i < codes.size(); ++i) std::memcpy(&packed[i * width], &codes[i], width);
    std::size_t next = 0;  // in bytes
    for_each_run(view, [&](std::int64_t offset, std::int64_t count) {
        auto* to = static_cast<char*>(view.data) + static_cast<std::size_t>(offset) * width;
        for (std::size_t left = static_cast<std::size_t>(count) * width; left > 0;) {
            const std::size_t take = std::min(left, packed.size() - next);
            std::memcpy(to, &packed[next], take);
            to += take;
            left -= take;
            next = (next + take) % packed.size();
        }
    });
}

void fill_field(const Case& c, std::size_t field, const AxisSizes& sizes, const Tensor& view,
                std::uint64_t seed, Values values) {
    Random random(seed, field);
    const Field& f = c.contract().fields()[field];
    // Large tensors repeat their first elements, a prime number of them, so that no two rows are alike.
    constexpr std::size_t kPeriod = 1'000'003;
    if (is_floating(view.dtype)) {
        const auto n = std::min(kPeriod, static_cast<std::size_t>(view.numel()));
        std::vector<std::uint64_t> codes(n);
        for (std::uint64_t& code : codes) code = encode(view.dtype, draw(f.fill, values, random));
        fill_codes(view, codes);
    } else {
        for_each_offset(view, [&](std::int64_t i) {
            store_integer(view.dtype, view.data, i,
                          draw_integer(f.fill, c.contract(), sizes, view.dtype, random));
        });
    }
}

}  // namespace

Instance::Instance(const Case& c, Device device, std::uint64_t seed, Values values, int poison)
    : case_(c), device_(device), poison_(poison) {
    const AxisSizes sizes = c.check();
    Contents contents(c.tensors.size());
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const TensorSpec& spec = c.tensors[i];
        if (!spec.present || spec.alias >= 0) continue;
        const auto size = static_cast<std::size_t>(weft::bytes(spec.dtype, spec.span()));
        contents[i].assign(size + 2 * guard(), static_cast<std::byte>(poison));
        if (c.contract().fields()[i].reads() && size > 0) {
            fill_field(c, i, sizes, spec.over(contents[i].data() + guard(), kCpu), seed, values);
        }
    }
    initial_ = std::make_shared<const Contents>(std::move(contents));
    bind();
}

Instance::Instance(const Instance& like, void* memory)
    : case_(like.case_), device_(like.device_), poison_(like.poison_), initial_(like.initial_) {
    auto* at = static_cast<char*>(memory);
    for (const auto& contents : *initial_) {
        memory_.push_back(contents.empty() ? nullptr : at);
        at += padded(contents.size());
    }
    bind();
    for (std::size_t i = 0; i < memory_.size(); ++i) {
        copy_bytes(memory_[i], device_, like.memory_[i], device_, (*initial_)[i].size());
    }
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
        if (fields[i].reads()) {
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
