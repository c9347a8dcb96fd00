// How a copy is done: a pure function of two views.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "ops/copy/copy.h"

namespace weft {

// The axes of both views, those of out's smallest stride first; axes that are one in both are merged.
struct CopyPlan {
    static constexpr int kMaxAxes = kMaxRank;
    enum class Way { words, tiles, vectors, elements };

    Way way = Way::words;
    int axes = 0;
    std::int64_t size[kMaxAxes] = {}, x[kMaxAxes] = {}, out[kMaxAxes] = {};  // in words where these are moved
    int word = 1;                                                            // bytes that are moved as one
    int across = 0;  // tiles: the axis along which x is contiguous
    // Of a single run: the elements before its first whole word and behind its last one.
    std::int64_t head = 0, tail = 0;
};

namespace detail {

inline void add_axis(CopyPlan& plan, std::int64_t size, std::int64_t x, std::int64_t out) {
    int at = plan.axes++;
    for (; at > 0 && plan.out[at - 1] > out; --at) {
        plan.size[at] = plan.size[at - 1], plan.x[at] = plan.x[at - 1], plan.out[at] = plan.out[at - 1];
    }
    plan.size[at] = size, plan.x[at] = x, plan.out[at] = out;
}

inline void merge_axes(CopyPlan& plan) {
    int kept = 0;
    for (int i = 1; i < plan.axes; ++i) {
        if (plan.out[i] == plan.out[kept] * plan.size[kept] && plan.x[i] == plan.x[kept] * plan.size[kept]) {
            plan.size[kept] *= plan.size[i];
        } else {
            ++kept;
            plan.size[kept] = plan.size[i], plan.x[kept] = plan.x[i], plan.out[kept] = plan.out[i];
        }
    }
    plan.axes = std::min(plan.axes, kept + 1);
}

// The most bytes up to 16 by which both views can be moved along their common contiguous axis.
inline int common_word(const CopyPlan& plan, const Copy& op, int element) {
    auto mixed = reinterpret_cast<std::uintptr_t>(op.out.data);
    if (op.x) mixed |= reinterpret_cast<std::uintptr_t>(op.x.data);
    if (plan.out[0] != 1 || (op.x && plan.x[0] != 1)) return element;
    if (plan.axes > 1 || plan.size[0] * element < 64)
        mixed |= static_cast<std::uintptr_t>(plan.size[0] * element);
    for (int i = 1; i < plan.axes; ++i) {
        mixed |= static_cast<std::uintptr_t>(plan.out[i] * element);
        if (op.x) mixed |= static_cast<std::uintptr_t>(plan.x[i] * element);
    }
    return mixed % 16 == 0 ? 16 : mixed % 4 == 0 ? std::max(element, 4) : element;
}

// Counts words instead of elements.
inline void count_words(CopyPlan& plan, int element) {
    const int in_word = plan.word / element;
    if (in_word == 1) return;
    plan.tail = plan.size[0] % in_word;
    plan.size[0] /= in_word;
    for (int i = 1; i < plan.axes; ++i) plan.x[i] /= in_word, plan.out[i] /= in_word;
}

// Elements of a single long run until both views reach a multiple of 16 bytes; 0 where they never do so together.
inline std::int64_t elements_before_words(const CopyPlan& plan, const Copy& op, int element) {
    const auto place = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data) % 16; };
    const bool run = plan.axes == 1 && plan.out[0] == 1 && plan.x[0] == 1 && plan.size[0] * element >= 256;
    if (!run || (op.x && place(op.x) != place(op.out))) return 0;
    return static_cast<std::int64_t>((16 - place(op.out)) % 16) / element;
}

}  // namespace detail

inline CopyPlan plan_copy(const Copy& op) {
    CopyPlan plan;
    const int element = bits(op.out.dtype) / 8;
    for (int i = 0; i < op.out.rank; ++i) {
        if (op.out.shape[i] > 1)
            detail::add_axis(plan, op.out.shape[i], op.x ? op.x.stride[i] : 0, op.out.stride[i]);
    }
    if (plan.axes == 0) detail::add_axis(plan, 1, 1, 1);
    if (!op.x) std::copy_n(plan.out, plan.axes, plan.x);  // what merges depends on out alone
    detail::merge_axes(plan);
    if (op.x && op.x.dtype != op.out.dtype) {
        const bool rows = plan.axes <= 2 && plan.out[0] == 1 && plan.x[0] == 1;
        plan.way = rows ? CopyPlan::Way::vectors : CopyPlan::Way::elements;
        if (rows && plan.axes == 1) plan.tail = plan.size[0] % 8;
        return plan;
    }
    for (int i = 1; op.x && i < plan.axes; ++i) {
        const bool turned = plan.x[i] == 1 && plan.x[0] != 1 && plan.out[0] == 1;
        if (!turned || (element != 2 && element != 4) || plan.size[i] < 8 || plan.size[0] < 8) continue;
        plan.way = CopyPlan::Way::tiles;
        plan.word = element;
        plan.across = i;
        return plan;
    }
    plan.head = detail::elements_before_words(plan, op, element);
    plan.word = detail::common_word(plan, op, element);
    detail::count_words(plan, element);
    return plan;
}

}  // namespace weft
