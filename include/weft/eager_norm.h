// What the norms of rows take where their bits are those of PyTorch's operators (rounding=eager).
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "weft/contract.h"

namespace weft::family {

// A chain of operators is of one dtype, x's. What stands in fp32 beside it in models takes part in fp32, as PyTorch promotes
// it: a gate, and with `wide` a modulation, whose norm is then of x.float().
template <class Op>
std::optional<Violation> eager_norm(const Op& op, bool wide) {
    const auto refuse = [&](const char* field, const Tensor& tensor, const std::string& expected) {
        return Violation{
            field, "expected " + expected + " with rounding=eager, got " + std::string(name(tensor.dtype))};
    };
    for (const auto& [field, tensor] :
         {std::pair{"residual", &op.residual}, std::pair{"out", &op.out}, std::pair{"out2", &op.out2}}) {
        if (*tensor && tensor->dtype != op.x.dtype) return refuse(field, *tensor, "x's dtype");
    }
    if (op.gate && op.gate.dtype != op.x.dtype && op.gate.dtype != DType::fp32)
        return refuse("gate", op.gate, "x's dtype or fp32");
    const Tensor* first = nullptr;  // all of a modulation is of one dtype
    for (const auto& [field, tensor] :
         {std::pair{"mod_scale", &op.mod_scale}, std::pair{"mod_shift", &op.mod_shift},
          std::pair{"mod_scale2", &op.mod_scale2}, std::pair{"mod_shift2", &op.mod_shift2}}) {
        if (!*tensor) continue;
        if (tensor->dtype != op.x.dtype && !(wide && tensor->dtype == DType::fp32))
            return refuse(field, *tensor, wide ? "x's dtype or fp32" : "x's dtype");
        if (first != nullptr && tensor->dtype != first->dtype)
            return refuse(field, *tensor, "one dtype of all of the modulation");
        first = tensor;
    }
    return {};
}

}  // namespace weft::family
