// histogram on the GPU and in the emulator: policy and launches.
#include "ops/histogram/histogram.h"

#include "ops/histogram/kernel.cuh"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr std::int64_t kSharedBins = 32 * 1024 / sizeof(int);  // a block's; several blocks share an SM

kit::RowTiles tiles(const Histogram& op, const DeviceInfo& device) {
    std::int64_t rows = fold_rows(op.x)->rows, dim = op.x.dim(-1);
    kit::fold_dense(rows, dim, {fold_rows(op.x)->stride});
    kit::RowTiles t = kit::tile_rows(rows, dim, 128 / bits(op.x.dtype), kBatch, device, 4 * device.sms);
    t.threads =
        kThreads;  // what fewer threads would clear and add of shared counts takes longer than their elements
    return t;
}

template <class T, bool kShared>
void launch_as(const Histogram& op, Context& context) {
    const kit::RowTiles t = tiles(op, context.info());
    kit::LaunchShape shape = t.shape();
    if (kShared) shape.dynamic_shared = static_cast<std::size_t>(op.bins) * sizeof(int);
    kit::launch("histogram", histogram<T, kShared>, shape, context.stream(), op.x.as<const T>(),
                fold_rows(op.x)->stride, kit::rows_aligned(op.x, 16 / static_cast<int>(sizeof(T))), t,
                op.counts.as<int>(), static_cast<int>(op.bins));
}

void launch(const Histogram& op, Context& context) {
    const auto blocks = static_cast<unsigned>(kit::divide_up(op.bins, kThreads));
    kit::launch("clear_counts", clear_counts,
                {.grid = dim3(blocks), .block = dim3(kThreads), .dependent = true}, context.stream(),
                op.counts.as<int>(), static_cast<int>(op.bins));
    if (op.x.numel() == 0) return;
    kit::with_one_of<int, long long, std::uint8_t>(op.x.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        op.bins <= kSharedBins ? launch_as<T, true>(op, context) : launch_as<T, false>(op, context);
    });
}

const RegisterImplementations<Histogram> kKernels{
    kit::kTarget,
    {{"atomics", +[](const Histogram&, const DeviceInfo&) -> const char* { return nullptr; },
      +[](const Histogram& op, const DeviceInfo& device) {
          return std::string(op.bins <= kSharedBins ? "shared" : "global") + " counts, " +
                 tiles(op, device).describe();
      },
      launch}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
