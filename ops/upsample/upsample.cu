// upsample on the GPU and in the emulator: policy and launches.
#include "ops/upsample/upsample.h"

#include "ops/upsample/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

// out's axes of more than one element by their strides, the smallest first; how many there are.
int order_axes(const Tensor& out, int (&order)[kMaxRank]) {
    int axes = 0;
    for (int axis = out.rank - 1; axis >= 0; --axis) {
        if (out.shape[axis] != 1) order[axes++] = axis;
    }
    std::stable_sort(order, order + axes, [&](int a, int b) { return out.stride[a] < out.stride[b]; });
    return axes;
}

UpAxis up_axis(const Upsample& op, int axis) {
    const std::int64_t scale[] = {op.time_scale, op.height_scale, op.width_scale};
    const std::int64_t part[] = {op.height_scale * op.width_scale, op.width_scale, 1};
    const int place = axis - (op.out.rank - 4);
    UpAxis up{.out = op.out.stride[axis],
              .residual = op.residual ? op.residual.stride[axis] : 0,
              .x = op.x.stride[axis],
              .scale = {},
              .part = 0};
    if (place == 3) up.x *= op.shuffle;
    if (place < 0 || place == 3 || scale[place] == 1) return up;
    up.scale = kit::Divisor::of(scale[place]);
    up.part = static_cast<unsigned>(part[place]);
    return up;
}

bool moves_vectors(const Upsample& op) {
    const auto allows = [&](const Tensor& t) {
        return !t || (t.dtype == op.x.dtype && t.stride[t.rank - 1] == 1 && kit::rows_aligned(t, kWidth));
    };
    return op.shuffle == 1 && op.out.dim(-1) % kWidth == 0 && allows(op.x) && allows(op.residual) &&
           allows(op.out);
}

// Elements of a row of out that its innermost axes make together, unless all of them make fewer.
constexpr std::int64_t kRowLeast = 32;

UpParams params(const Upsample& op) {
    UpParams p{.x = op.x.data,
               .residual = op.residual ? op.residual.data : nullptr,
               .out = op.out.data,
               .x_dtype = op.x.dtype,
               .residual_dtype = op.residual ? op.residual.dtype : op.x.dtype,
               .out_dtype = op.out.dtype,
               .inner = {},
               .rows = {},
               .axis = {},
               .outer = {},
               .channel = op.x.stride[op.x.rank - 1],
               .shuffled = op.shuffle > 1,
               .apiece = kit::Divisor::of(op.time_scale * op.height_scale * op.width_scale / op.shuffle)};
    int order[kMaxRank];
    const int axes = order_axes(op.out, order);
    const std::int64_t least = moves_vectors(op) ? 1 : kRowLeast;
    for (int i = 0; i < axes; ++i) {
        const bool inside = i == 0 || (p.rows.axes == 0 && p.inner.count() < least);
        kit::AxisWalk& walk = inside ? p.inner : p.rows;
        (inside ? p.axis : p.outer)[walk.axes] = up_axis(op, order[i]);
        walk.add(op.out.shape[order[i]]);
    }
    return p;
}

// Whether elements are moved as they are.
bool moves_words(const Upsample& op) { return op.x.dtype == op.out.dtype && !op.residual; }

kit::RowTiles tiles(const Upsample& op, const UpParams& p, const DeviceInfo& device) {
    const std::int64_t rows = p.rows.count(), inner = p.inner.count();
    if (moves_vectors(op)) return kit::tile_rows(rows, inner, kWidth, 1, device);
    // As many blocks as run at once: each comes to many rows of a large tensor.
    return kit::tile_rows(rows, inner, 1, kBatch, device, resident_blocks(moves_words(op)) * device.sms, 32);
}

const char* decline(const Upsample& op, const DeviceInfo&) {
    for (int i = 0; i < op.out.rank; ++i) {
        if (op.out.shape[i] >> 31 != 0) return "an axis of 2^31 elements or more";
    }
    return op.time_scale * op.height_scale * op.width_scale * op.shuffle >> 32 == 0
               ? nullptr
               : "scales whose product is 2^32 or more";
}

const char* decline_vectors(const Upsample& op, const DeviceInfo& device) {
    if (!moves_vectors(op)) return "channels are not whole aligned vectors of one dtype in all tensors";
    return decline(op, device);
}

// Whether there are vectors of x for all threads of the card: then each has one, with all of its copies.
bool has_threads(const Upsample& op, const DeviceInfo& device) {
    return op.x.numel() / kWidth >= std::int64_t{1024} * device.sms;
}

CopiesParams copies(const Upsample& op) {
    CopiesParams p{.up = params(op), .time = {}, .height = {}, .width = {}};
    p.up.rows = {};
    int order[kMaxRank];
    const int axes = order_axes(op.out, order);
    const std::int64_t scale[] = {op.time_scale, op.height_scale, op.width_scale};
    Repeat* const repeat[] = {&p.time, &p.height, &p.width};
    for (int i = 1; i < axes; ++i) {  // the first is that of channels
        UpAxis& axis = p.up.outer[i - 1];
        const int place = order[i] - (op.out.rank - 4);
        p.up.rows.add(op.x.shape[order[i]]);
        axis.part = 0;
        if (place < 0) continue;
        *repeat[place] = {static_cast<unsigned>(scale[place]), axis.out, axis.residual};
        axis.out *= scale[place];
        axis.residual *= scale[place];
    }
    return p;
}

kit::RowTiles copies_tiles(const Upsample& op, const DeviceInfo& device) {
    const std::int64_t channels = op.x.dim(-1);
    return kit::tile_rows(op.x.numel() / channels, channels, kWidth, 1, device);
}

void launch_vectors(const Upsample& op, Context& context) {
    if (has_threads(op, context.info())) {
        const kit::RowTiles t = copies_tiles(op, context.info());
        return kit::with_wide_type(op.x.dtype, [&](auto* type) {
            kit::launch("upsample_copies", upsample_copies<std::remove_pointer_t<decltype(type)>>, t.shape(),
                        context.stream(), copies(op), t);
        });
    }
    const UpParams p = params(op);
    const kit::RowTiles t = tiles(op, p, context.info());
    kit::with_wide_type(op.x.dtype, [&](auto* type) {
        kit::launch("upsample_vectors", upsample_vectors<std::remove_pointer_t<decltype(type)>>, t.shape(),
                    context.stream(), p, t);
    });
}

void launch(const Upsample& op, Context& context) {
    const UpParams p = params(op);
    const kit::RowTiles t = tiles(op, p, context.info());
    const auto launch_as = [&](auto kernel) {
        kit::launch("upsample", kernel, t.shape(), context.stream(), p, t);
    };
    if (!moves_words(op)) return launch_as(&upsample<void>);
    launch_as(bits(op.x.dtype) == 16 ? &upsample<unsigned short> : &upsample<unsigned>);
}

std::string config(const Upsample& op, const DeviceInfo& device) {
    return tiles(op, params(op), device).describe();
}
std::string config_vectors(const Upsample& op, const DeviceInfo& device) {
    return has_threads(op, device) ? copies_tiles(op, device).describe() + " of x" : config(op, device);
}

const RegisterImplementations<Upsample> kKernels{
    kit::kTarget,
    {{"vectors", decline_vectors, config_vectors, launch_vectors}, {"elements", decline, config, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
