// Instance: memory, filling, poison.
#include "verify/instance.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "verify/random.h"

namespace weft {
namespace {

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

void fill_field(const Case& c, std::size_t field, const AxisSizes& sizes, const Tensor& view,
                std::uint64_t seed, Values values) {
    Random random(seed, field);
    const Field& f = c.contract().fields()[field];
    // Large tensors repeat their first elements, a prime number of them, so that no two rows are alike.
    constexpr std::size_t kPeriod = 1'000'003;
    if (is_floating(view.dtype)) {
        std::vector<double> drawn;
        std::size_t next = 0;
        for_each_offset(view, [&](std::int64_t i) {
            if (drawn.size() < kPeriod) drawn.push_back(draw(f.fill, values, random));
            store_element(view.dtype, view.data, i, drawn[next++ % kPeriod]);
        });
    } else {
        for_each_offset(view, [&](std::int64_t i) {
            store_integer(view.dtype, view.data, i,
                          draw_integer(f.fill, c.contract(), sizes, view.dtype, random));
        });
    }
}

}  // namespace

Instance::Instance(const Case& c, Device device, std::uint64_t seed, Values values, int poison)
    : case_(c), device_(device), buffers_(c.tensors.size()), initial_(c.tensors.size()) {
    const AxisSizes sizes = c.check();
    std::vector<void*> bases(c.tensors.size(), nullptr);
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const TensorSpec& spec = c.tensors[i];
        if (!spec.present || spec.alias >= 0) continue;
        const auto size = static_cast<std::size_t>(weft::bytes(spec.dtype, spec.span()));
        initial_[i].assign(size + 2 * guard(), static_cast<std::byte>(poison));
        if (c.contract().fields()[i].reads() && size > 0) {
            fill_field(c, i, sizes, spec.over(initial_[i].data() + guard(), kCpu), seed, values);
        }
        buffers_[i] = Buffer(device, initial_[i].size());
        bases[i] = static_cast<char*>(buffers_[i].data()) + guard();
        upload(i);
    }
    call_.resize(c.contract().size() / sizeof(std::max_align_t) + 1);
    c.bind(call_.data(), bases, device);
}

void Instance::upload(std::size_t field) {
    copy_bytes(buffers_[field].data(), device_, initial_[field].data(), kCpu, initial_[field].size());
}

void Instance::reset() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) upload(i);
}

void Instance::run(Context& context) const {
    detail::run(case_.op(), call_.data(), context);
    synchronize(device_, context.stream());
}

std::vector<std::byte> Instance::bytes(std::size_t field) const {
    std::vector<std::byte> out(buffers_[field].size());
    copy_bytes(out.data(), kCpu, buffers_[field].data(), device_, out.size());
    return out;
}

std::size_t Instance::first_byte(std::size_t field) const {
    return guard() +
           static_cast<std::size_t>(weft::bytes(case_.tensors[field].dtype, case_.tensors[field].offset));
}

}  // namespace weft
