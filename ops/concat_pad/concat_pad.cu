// concat_pad on the GPU and in the emulator: policy and launch.
#include "ops/concat_pad/concat_pad.h"

#include "ops/concat_pad/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

struct Plan {
    std::int64_t size[5] = {};
    PadAxis axis[5] = {};
    int word = 1;  // bytes
};

// out's axes by their strides, the smallest first.
Plan in_elements(const ConcatPad& op) {
    const std::int64_t kept = op.cache ? op.cache.dim(2) : 0;
    const std::int64_t before[] = {0, 0, op.front, op.top, op.left};
    int order[] = {4, 3, 2, 1, 0};
    const auto key = [&](int axis) { return op.out.shape[axis] > 1 ? op.out.stride[axis] : INT64_MAX; };
    std::stable_sort(order, order + 5, [&](int a, int b) { return key(a) < key(b); });
    Plan plan;
    for (int i = 0; i < 5; ++i) {
        const int axis = order[i];
        plan.size[i] = op.out.shape[axis];
        plan.axis[i] = {.out = op.out.stride[axis],
                        .x = op.x.stride[axis],
                        .cache = op.cache ? op.cache.stride[axis] : 0,
                        .before = before[axis],
                        .inside = op.x.dim(axis) + (axis == 2 ? kept : 0),
                        .kept = axis == 2 ? kept : 0};
    }
    return plan;
}

// Longer words where the innermost axis is whole in all tensors and every row begins with one.
Plan plan_of(const ConcatPad& op) {
    Plan plan = in_elements(op);
    const int element = bits(op.out.dtype) / 8;
    plan.word = element;
    const PadAxis& inner = plan.axis[0];
    const bool same = inner.inside == plan.size[0] && inner.kept == 0 && inner.out == 1 && inner.x == 1 &&
                      (!op.cache || inner.cache == 1);
    if (!same) return plan;
    const auto place = [](const Tensor& t) { return t ? reinterpret_cast<std::uintptr_t>(t.data) : 0; };
    std::uintptr_t mixed = place(op.x) | place(op.cache) | place(op.out);
    mixed |= static_cast<std::uintptr_t>(plan.size[0] * element);
    for (int i = 1; i < 5; ++i) {
        const PadAxis& axis = plan.axis[i];
        if (plan.size[i] > 1)
            mixed |= static_cast<std::uintptr_t>((axis.out | axis.x | axis.cache) * element);
    }
    if (mixed % 16 != 0) return plan;
    plan.word = 16;
    const int in_word = 16 / element;
    plan.size[0] /= in_word;
    plan.axis[0].inside /= in_word;
    for (int i = 1; i < 5; ++i) {
        PadAxis& axis = plan.axis[i];
        axis.out /= in_word, axis.x /= in_word, axis.cache /= in_word;
    }
    return plan;
}

// Whether out is one stretch of memory, in which units of four bytes are put together.
bool is_flat(const ConcatPad& op, const Plan& plan) {
    const PadAxis& inner = plan.axis[0];
    if (plan.word == 16 || op.out.numel() >> 30 != 0 || plan.size[0] < kFlatLeast) return false;
    if (inner.x != 1 || inner.kept != 0 || (op.cache && inner.cache != 1)) return false;
    std::int64_t together = 1;
    for (int i = 0; i < 5; ++i) {
        if (plan.size[i] > 1 && plan.axis[i].out != together) return false;
        together *= plan.size[i];
    }
    return true;
}
// Elements from the beginning of out's first unit to its own.
unsigned elements_ahead(const ConcatPad& op, const Plan& plan) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(op.out.data) % 4) /
           static_cast<unsigned>(plan.word);
}
std::int64_t flat_blocks(const ConcatPad& op, const Plan& plan) {
    const std::int64_t elements = op.out.numel() + elements_ahead(op, plan);
    return std::max<std::int64_t>(1,
                                  kit::divide_up(elements * plan.word, std::int64_t{4} * kThreads * kUnits));
}

kit::RowTiles tiles(const Plan& plan, const DeviceInfo& device) {
    std::int64_t rows = 1;
    for (int i = 1; i < 5; ++i) rows *= plan.size[i];
    constexpr std::int64_t kBlocks = 32;  // of a multiprocessor at most: each comes to many rows
    return kit::tile_rows(rows, plan.size[0], 1, batch_of(plan.word), device, kBlocks * device.sms);
}

void launch(const ConcatPad& op, Context& context) {
    const Plan plan = plan_of(op);
    // Where a tensor has nothing to read, kernels still count from a place that is there.
    const auto place = [&](const Tensor& t) { return t.data != nullptr ? t.data : op.out.data; };
    PadParams p{.x = place(op.x), .cache = place(op.cache), .out = op.out.data, .rows = {}, .axis = {}};
    std::copy_n(plan.axis, 5, p.axis);
    for (int i = 1; i < 5; ++i) p.rows.add(plan.size[i]);
    if (is_flat(op, plan)) {
        const FlatParams flat{
            .pad = p,
            .width = kit::Divisor::of(plan.size[0]),
            .rows = static_cast<unsigned>(op.out.numel() / plan.size[0]),
            .end = static_cast<unsigned>(op.out.numel()),
            .ahead = elements_ahead(op, plan),
            .cache = (static_cast<const char*>(p.cache) - static_cast<const char*>(p.x)) / plan.word};
        const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(flat_blocks(op, plan))),
                                     .block = dim3(kThreads),
                                     .dependent = true};
        const auto flat_as = [&](auto* type) {
            using Element = std::remove_pointer_t<decltype(type)>;
            kit::launch("concat_pad_flat", concat_pad_flat<Element>, shape, context.stream(), flat);
        };
        switch (plan.word) {
            case 4: return flat_as(static_cast<unsigned*>(nullptr));
            case 2: return flat_as(static_cast<unsigned short*>(nullptr));
            default: return flat_as(static_cast<unsigned char*>(nullptr));
        }
    }
    const kit::RowTiles t = tiles(plan, context.info());
    const auto with_word = [&](auto* type) {
        using Word = std::remove_pointer_t<decltype(type)>;
        kit::launch("concat_pad", concat_pad<Word>, t.shape(), context.stream(), p, t);
    };
    switch (plan.word) {
        case 16: return with_word(static_cast<uint4*>(nullptr));
        case 4: return with_word(static_cast<unsigned*>(nullptr));
        case 2: return with_word(static_cast<unsigned short*>(nullptr));
        default: return with_word(static_cast<unsigned char*>(nullptr));
    }
}

const RegisterImplementations<ConcatPad> kKernels{
    kit::kTarget,
    {{"words", +[](const ConcatPad&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const ConcatPad& op, const DeviceInfo& device) {
          const Plan plan = plan_of(op);
          if (is_flat(op, plan))
              return "units of 4 of elements of " + std::to_string(plan.word) +
                     ", blocks=" + std::to_string(flat_blocks(op, plan));
          return "words of " + std::to_string(plan.word) + ", " + tiles(plan, device).describe();
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
