// copy: elements from any place to any place, converted where the dtypes differ; or one value everywhere.
#pragma once

#include <optional>
#include <string>

#include "weft/contract.h"

namespace weft {

// out = x, element by element; both may have any strides, so that a transposed view, a slice of columns or a broadcast
// one (stride 0) is copied into what is dense, or the other way. Where there is no x, out = value.
//
// One dtype: the very bits. Two floating dtypes: one rounding to nearest even; fp8 saturates, bf16 and fp16 overflow to
// infinity, NaN stays NaN.
struct Copy {
    static constexpr std::string_view kName = "copy";

    Tensor x{}, out{};
    float value = 0;

    static const Contract& contract();
};

inline const Contract& Copy::contract() {
    using Op = Copy;
    static const DTypeSet kAny = kFloat | kFp8 | kIndex | DType::int8 | DType::uint8;
    static const Contract contract =
        Describe<Op>(std::string(kName), "out = x, or value")
            .out("out", &Op::out, "...", kAny, "the copy")
            .layout(Layout::strided)
            .in("x", &Op::x, "...", kAny, "what is copied; absent: value")
            .optional()
            .layout(Layout::strided)
            .option("value", &Op::value, -3.4e38, 3.4e38, "of every element, where there is no x",
                    {0, 1, -1e30})
            .require(+[](const Op& op) -> std::optional<Violation> {
                if (!op.x || op.x.dtype == op.out.dtype) return {};
                if (is_floating(op.x.dtype) && is_floating(op.out.dtype)) return {};
                return Violation{"out", "expected x's dtype " + std::string(name(op.x.dtype)) +
                                            ": only floating dtypes are converted"};
            })
            .independent({"..."})
            .tolerance("exact: half an ulp of out where the dtypes differ")
            .source(
                "torch.Tensor.copy_, fill_, to, contiguous; gpu_copy, gpu_strided_copy, gpu_cast_*, "
                "gpu_fill_neginf of VLA engines; mat_transpose_* of teaching libraries");
    return contract;
}

}  // namespace weft
