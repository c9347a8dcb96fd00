// embedding on the GPU and in the emulator: policy and launch.
#include "ops/embedding/embedding.h"

#include "ops/embedding/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

kit::RowTiles tiles(const Embedding& op, const DeviceInfo& device) {
    return kit::tile_tensors({&op.out, &op.table}, kWidth, false, device);
}

template <class T, class Out>
void launch_as(const Embedding& op, const Table& table, const kit::RowTiles& t, Context& context) {
    kit::launch("embedding", embedding<T, Out>, t.shape(), context.stream(),
                Ids{op.ids.data, op.ids.dtype == DType::int64}, table, kit::vector_rows(op.out, kWidth), t);
}

void launch(const Embedding& op, Context& context) {
    using kit::bf16, kit::half, kit::Types;
    const kit::RowTiles t = tiles(op, context.info());
    const Table table{kit::vector_rows(op.table, kWidth), op.table.dim(0), op.scale};
    const bool known = table.vocab >> 31 == 0 &&
                       kit::whole_vectors(t, kWidth, {table.rows, kit::vector_rows(op.out, kWidth)}) &&
                       kit::with_types<Types<bf16>, Types<half>, Types<float>>(
                           op.table.dtype, op.out.dtype, [&](auto types) {
                               using T = typename decltype(types)::In;
                               launch_as<T, T>(op, table, t, context);
                           });
    if (known) return;
    kit::with_wide_type(op.table.dtype, [&](auto* type) {
        launch_as<std::remove_pointer_t<decltype(type)>, kit::Any>(op, table, t, context);
    });
}

const RegisterImplementations<Embedding> kKernels{
    kit::kTarget,
    {{"vectors", +[](const Embedding&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Embedding& op, const DeviceInfo& device) { return tiles(op, device).describe(); }, launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
