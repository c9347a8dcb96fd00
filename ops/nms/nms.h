// nms: non-maximum suppression of boxes.
#pragma once

#include "weft/contract.h"

namespace weft {

// Boxes in the order of their scores (equal scores: the lower index first; NaN is the largest) are kept unless they
// overlap one that was kept by more than `threshold` of their union. `keep` holds the indices of the kept boxes in that
// order and −1 behind them; `count` says how many there are.
//
// A box is x1, y1, x2, y2; its area is (x2 − x1)·(y2 − y1), without a clamp. Every operation is fp32's, none contracted.
struct Nms {
    static constexpr std::string_view kName = "nms";

    Tensor boxes{}, scores{}, keep{}, count{};
    float threshold = 0.5f;

    static const Contract& contract();
};

inline const Contract& Nms::contract() {
    using Op = Nms;
    static const Contract contract =
        Describe<Op>(std::string(kName), "keep = boxes that no kept box of a higher score overlaps")
            .in("boxes", &Op::boxes, "n 4", DType::fp32, "corners: x1, y1, x2, y2")
            .fill(Fill::uniform(0, 4))
            .in("scores", &Op::scores, "n", kFloat, "the higher first")
            .layout(Layout::dense)
            .out("keep", &Op::keep, "n", kIndex, "indices of the kept boxes, then −1")
            .layout(Layout::dense)
            .out("count", &Op::count, "1", DType::int32, "how many are kept")
            .option("threshold", &Op::threshold, 0, 1e30, "of intersection over union", {0.5, 0.1, 0.9, 0})
            .flops(+[](const Op& op) { return 8.0 * static_cast<double>(op.boxes.dim(0) * op.boxes.dim(0)); })
            .tolerance("exact")
            .sizes("n", {1, 2, 7, 63, 64, 65, 200, 500})
            .source("torchvision.ops.nms; nms of teaching libraries");
    return contract;
}

}  // namespace weft
