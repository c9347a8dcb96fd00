// Heads whose norm and rotation have the bits of PyTorch's operators (rounding=eager), as references compute them.
#pragma once

#include <cmath>
#include <vector>

#include "kit/head_reference.h"
#include "kit/stepped.h"
#include "weft/rounding.h"

namespace weft::kit {

// Heads on their way through PyTorch's operators, and back; of rounding=fused, as HeadValues has it.
template <class Op>
struct SteppedHeads {
    const Op& op;
    HeadValues& heads;
    std::vector<Stepped> at;
    DType dtype = op.q.dtype;
    bool eager = op.rounding != Rounding::fused;

    SteppedHeads(const Op& of, HeadValues& h) : op(of), heads(h) {
        for (const double v : h.value) at.push_back(Stepped::exact(v));
    }
    void normalise(std::int64_t count, const Tensor& weight) {
        if (!eager)
            return heads.normalise(count, static_cast<double>(op.eps), weight,
                                   static_cast<double>(op.weight_offset));
        const bool cast = weight && op.rounding == Rounding::eager_cast;
        for (std::size_t first = 0; first < at.size(); first += static_cast<std::size_t>(count)) {
            double squares = 0;
            const auto last = first + static_cast<std::size_t>(count);
            for (std::size_t i = first; i < last; ++i) squares += at[i].value * at[i].value;
            const double scale =
                1 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(op.eps));
            for (std::size_t i = first; i < last; ++i) {
                const double n = at[i].value * scale;
                const double factor = weight ? load_element(weight.dtype, weight.data,
                                                            static_cast<std::int64_t>(i) % weight.dim(0)) +
                                                   static_cast<double>(op.weight_offset)
                                             : 1;
                at[i] = Stepped::within(n, 49 * kEps32 * std::fabs(n));
                if (cast) at[i] = at[i].to(dtype);
                at[i] = (at[i] * Stepped::exact(factor)).to(dtype);
            }
        }
    }
    void turn(std::int64_t head, std::int64_t first, std::int64_t second, const Turn& by) {
        if (!eager) return heads.turn(head, first, second, by);
        const auto wide = (op.cos ? op.cos : op.head_cos).dtype;  // x's dtype, or what it is promoted to
        Stepped &x = at[static_cast<std::size_t>(head * heads.dim + first)],
                &y = at[static_cast<std::size_t>(head * heads.dim + second)];
        const Stepped a = x, b = y, c = Stepped::exact(by.cos), s = Stepped::exact(by.sin);
        const auto second_product = [&](const Stepped& p) { return op.addcmul ? p : p.to(wide); };
        x = ((a * c).to(wide) - second_product(b * s)).to(wide).to(dtype);
        y = ((b * c).to(wide) + second_product(a * s)).to(wide).to(dtype);
    }
    void put_back() const {
        for (std::size_t i = 0; eager && i < at.size(); ++i)
            heads.value[i] = at[i].value, heads.error[i] = at[i].error();
    }
};

}  // namespace weft::kit
