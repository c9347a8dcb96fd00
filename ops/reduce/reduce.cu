// reduce on the GPU and in the emulator: policy and launches.
#include "ops/reduce/reduce.h"

#include <bit>

#include "kit/elementwise.cuh"
#include "kit/launch.h"
#include "ops/reduce/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kThreads = 256;

// Calls use(null pointer to T). Sums of chunks that are finished have T = float, or long long.
template <class F>
void with_operand(DType dtype, F use) {
    kit::with_one_of<kit::bf16, kit::half, kit::e4m3, kit::e5m2, std::int8_t, long long, float>(dtype, use);
}

// How rows are cut: a warp or less takes a short row; a longer one is a block's, or several blocks' where there are few.
struct Cut {
    std::int64_t rows = 0, dim = 0, chunk = 0;
    unsigned chunks = 1;
    int lanes = 32;
    bool vectors = true;

    std::int64_t blocks() const { return kit::divide_up(rows * chunks, kThreads / lanes); }
};

Cut cut_rows(std::int64_t rows, std::int64_t dim, int width, bool vectors, const DeviceInfo& device) {
    const std::int64_t units = vectors ? dim / width : dim;
    Cut cut{.rows = rows, .dim = dim, .lanes = 1, .vectors = vectors};
    constexpr std::int64_t kWarpful = 32 * 16, kBlockful = kThreads * 8, kFlight = 4, kFew = 64;
    // Many rows have a warp each however long they are: nothing passes between warps then. Few take blocks as long as these
    // have room side by side.
    const bool many = rows * 32 >= std::int64_t{512} * device.sms;
    if ((units > kWarpful && !many) || (units >= kFew && rows * kThreads <= std::int64_t{512} * device.sms)) {
        cut.lanes = kThreads;
        const std::int64_t wanted =
            kit::divide_up(std::int64_t{8} * device.sms, std::max<std::int64_t>(rows, 1));
        cut.chunks =
            static_cast<unsigned>(std::clamp<std::int64_t>(std::min(wanted, units / kBlockful), 1, 1 << 20));
    } else {
        // As few lanes as have all that is theirs in flight, but four, which read 64 bytes side by side; more, up to one for
        // each unit, where the card has them.
        const auto more = [&] {
            return cut.lanes * kFlight < units ||
                   (cut.lanes < units &&
                    (cut.lanes < 4 || rows * cut.lanes < std::int64_t{1024} * device.sms));
        };
        while (cut.lanes < 32 && more()) cut.lanes *= 2;
    }
    cut.chunk = std::max<std::int64_t>(1, kit::divide_up(units, cut.chunks));
    return cut;
}

// Whether whole vectors of both tensors lie at the same places of their rows.
bool aligned_alike(const Tensor& x, const Tensor& factor) {
    if (!factor) return true;
    const auto place = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data) % 16; };
    const std::int64_t apart = fold_rows(x)->stride - fold_rows(factor)->stride;
    return place(x) == place(factor) && (fold_rows(x)->rows == 1 || apart * bits(x.dtype) / 8 % 16 == 0);
}

Cut cut_of(const Reduce& op, const DeviceInfo& device) {
    const Rows x = *fold_rows(op.x);
    return cut_rows(x.rows, x.dim, 128 / bits(op.x.dtype), aligned_alike(op.x, op.factor), device);
}

void launch_cut(const ReduceParams& p, DType dtype, const Cut& cut, Context& context) {
    const kit::LaunchShape shape{.grid = dim3(static_cast<unsigned>(std::max<std::int64_t>(1, cut.blocks()))),
                                 .block = dim3(kThreads),
                                 .dependent = true};
    with_operand(dtype, [&](auto* type) {
        kit::launch("reduce", reduce<std::remove_pointer_t<decltype(type)>>, shape, context.stream(), p);
    });
}

ReduceParams params(const Cut& cut, ReduceKind kind) {
    return {.x = nullptr,
            .factor = nullptr,
            .x_stride = cut.dim,
            .factor_stride = 0,
            .rows = cut.rows,
            .dim = cut.dim,
            .chunk = cut.chunk,
            .chunks = kit::Divisor::of(cut.chunks),
            .lanes = cut.lanes,
            .lanes_log2 = std::countr_zero(static_cast<unsigned>(cut.lanes)),
            .vectors = cut.vectors,
            .whole = false,
            .kind = kind,
            .out = nullptr,
            .out_dtype = DType::fp32,
            .partial = false,
            .mean = -1};
}

void launch(const Reduce& op, Context& context) {
    const Cut cut = cut_of(op, context.info());
    const ReduceKind kind = op.kind == Reduce::Kind::max    ? ReduceKind::max
                            : op.kind == Reduce::Kind::amax ? ReduceKind::amax
                                                            : ReduceKind::sum;
    ReduceParams p = params(cut, kind);
    p.x = op.x.data;
    p.x_stride = fold_rows(op.x)->stride;
    if (op.factor) p.factor = op.factor.data, p.factor_stride = fold_rows(op.factor)->stride;
    const int width = 128 / bits(op.x.dtype);
    p.whole =
        cut.vectors && cut.dim % width == 0 && cut.dim / width >> 30 == 0 && kit::rows_aligned(op.x, width);
    const auto finish = [&](ReduceParams& last) {
        last.out = op.out.data;
        last.out_dtype = op.out.dtype;
        if (op.kind == Reduce::Kind::mean) last.mean = op.x.dim(-1);
    };
    if (cut.chunks == 1) {
        finish(p);
        return launch_cut(p, op.x.dtype, cut, context);
    }
    // The chunks' sums, and what they come to.
    const std::int64_t count = cut.rows * cut.chunks;
    const DType sums = op.x.dtype == DType::int8 ? DType::int64 : DType::fp32;
    p.out = context.scratch(static_cast<std::size_t>(bytes(sums, count)));
    p.partial = true;
    launch_cut(p, op.x.dtype, cut, context);
    const Cut last{.rows = cut.rows, .dim = cut.chunks, .chunk = cut.chunks, .lanes = kThreads};
    ReduceParams second = params(last, kind);
    second.x = p.out;
    finish(second);
    launch_cut(second, sums, last, context);
}

std::string config(const Reduce& op, const DeviceInfo& device) {
    const Cut cut = cut_of(op, device);
    return "lanes=" + std::to_string(cut.lanes) + " chunks=" + std::to_string(cut.chunks) +
           " blocks=" + std::to_string(cut.blocks()) + (cut.vectors ? " vectors" : " elements") +
           (cut.chunks == 1 ? "" : ", then their sums");
}

const RegisterImplementations<Reduce> kKernels{
    kit::kTarget,
    {{"chunks", +[](const Reduce&, const DeviceInfo&) -> const char* { return nullptr; }, config, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
