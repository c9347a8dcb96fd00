// nms' executable specification.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/nms/nms.h"
#include "weft/op.h"

namespace weft {
namespace {

struct Box {
    float x1, y1, x2, y2;
    float area() const { return (x2 - x1) * (y2 - y1); }
};

bool overlaps(const Box& a, const Box& b, float threshold) {
    const float width = std::fmax(std::fmin(a.x2, b.x2) - std::fmax(a.x1, b.x1), 0.0f);
    const float height = std::fmax(std::fmin(a.y2, b.y2) - std::fmax(a.y1, b.y1), 0.0f);
    const float both = width * height;
    return both / (a.area() + b.area() - both) > threshold;
}

void reference(const Nms& op, Oracle& oracle) {
    const auto n = static_cast<std::size_t>(op.boxes.dim(0));
    std::vector<Box> boxes(n);
    std::vector<double> scores(n);
    for (std::size_t i = 0; i < n; ++i) {
        const auto row = static_cast<std::int64_t>(i);
        const auto corner = [&](std::int64_t c) {
            return static_cast<float>(load_element(DType::fp32, op.boxes.data, row * op.boxes.stride[0] + c));
        };
        boxes[i] = {corner(0), corner(1), corner(2), corner(3)};
        scores[i] = load_element(op.scores.dtype, op.scores.data, row);
    }
    std::vector<std::size_t> order(n), kept;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::isnan(scores[a]) ? !std::isnan(scores[b]) : scores[a] > scores[b];
    });
    for (const std::size_t i : order) {
        const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](std::size_t other) {
            return overlaps(boxes[other], boxes[i], op.threshold);
        });
        if (!suppressed) kept.push_back(i);
    }
    for (std::size_t i = 0; i < n; ++i) {
        oracle.store_exact(op.keep, static_cast<std::int64_t>(i),
                           i < kept.size() ? static_cast<std::int64_t>(kept[i]) : -1);
    }
    oracle.store_exact(op.count, 0, static_cast<std::int64_t>(kept.size()));
}

const RegisterReference<Nms> kReference{reference};

}  // namespace
}  // namespace weft
