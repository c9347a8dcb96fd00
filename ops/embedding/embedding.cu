// embedding on the GPU and in the emulator: policy and launch.
#include "ops/embedding/embedding.h"

#include "ops/embedding/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const Embedding& op, const DeviceInfo& device) {
    return kit::tile_rows(op.ids.numel(), op.out.dim(-1), kWidth, kBatch, device);
}

template <class T>
void launch_as(const Embedding& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    const Ids ids{op.ids.data, op.ids.dtype == DType::int64};
    const Table<T> table{op.table.as<const T>(), op.table.dim(0), fold_rows(op.table)->stride,
                         kit::rows_aligned(op.table, kWidth)};
    const EmbeddingOut out{op.out.data, fold_rows(op.out)->stride, op.out.dtype,
                           kit::rows_aligned(op.out, kWidth)};
    kit::launch("embedding", embedding<T>, t.shape(), context.stream(), ids, table, op.scale, out, t);
}

void launch(const Embedding& op, Context& context) {
    switch (op.table.dtype) {
        case DType::bf16: return launch_as<kit::bf16>(op, context);
        case DType::fp16: return launch_as<kit::half>(op, context);
        default: return launch_as<float>(op, context);
    }
}

const RegisterImplementations<Embedding> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Embedding&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Embedding& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
