// grouped_gemm's launchers and the order in which implementations are asked.
#include "kit/launch.h"
#include "ops/grouped_gemm/kernel.cuh"
#include "ops/grouped_gemm/policy.h"
#include "ops/grouped_gemm/wgmma.h"
#include "ops/grouped_gemm/wgmma_launch.h"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {
namespace {

template <class T, class Shape, Weights kWeights>
void launch_shape(const GroupedGemm& op, const GroupedMmaArguments& args, Context& context) {
    const int64_t tiles = grouped::most_row_tiles(op, Shape::kRows) * args.first.column_tiles;
    const int64_t blocks = int64_t{context.info().sms} * Shape::kBlocks;
    kit::launch("grouped_gemm_mma", grouped_mma<T, Shape, kWeights>,
                {.grid = static_cast<unsigned>(std::min(tiles, blocks)),
                 .block = Shape::kThreads,
                 .dynamic_shared = Shape::kSharedBytes},
                context.stream(), args);
}

template <class T, Weights kWeights>
void launch_tile(const GroupedGemm& op, gemm::MmaConfig::Tile tile, const GroupedMmaArguments& args,
                 Context& context) {
    switch (tile) {
        case gemm::MmaConfig::Tile::large:
            // Tiles of scaled products lie within a block of scales.
            if constexpr (kWeights != Weights::scaled) launch_shape<T, Large, kWeights>(op, args, context);
            return;
        case gemm::MmaConfig::Tile::small: return launch_shape<T, Small, kWeights>(op, args, context);
        case gemm::MmaConfig::Tile::flat: return launch_shape<T, Flat, kWeights>(op, args, context);
    }
}

void launch_mma(const GroupedGemm& op, Context& context) {
    if (op.groups() == 0) return;  // no row of out is anybody's
    const Gemm first = grouped::product_of(op, 0);
    const gemm::Problem p = gemm::problem(first);
    const gemm::MmaConfig config = grouped::mma_config(op, context.info());
    const auto weights = [&](const Tensor& all, const Tensor& t, const gemm::WeightStrides& s) {
        const int64_t apart = grouped::apart(all);
        return config.transposed ? operand(t, p.k, p.n, s.step, 1, apart)
                                 : operand(t, p.n, p.k, s.row, s.step, apart);
    };
    GroupedMmaArguments args{};
    args.rows = group_rows(op);
    args.apart = group_strides(op);
    args.first.a = operand(first.a, op.rows(), p.k, p.a_stride, 1, args.apart.a);
    args.first.b = weights(op.b, first.b, p.b);
    if (op.up) args.first.up = weights(op.up, first.up, p.up);
    args.first.scales = scales_within(first);
    args.first.epilogue = epilogue_of_first(op, first, p);
    args.first.n = p.n;
    args.first.column_tiles = static_cast<int>(gemm::ceil_div(p.n, gemm::out_columns(first, config.tile)));
    args.first.steps = gemm::mma_steps(first);
    const auto launch = [&]<class T>(T*) {
        if (config.transposed) return launch_tile<T, Weights::columns>(op, config.tile, args, context);
        launch_tile<T, Weights::rows>(op, config.tile, args, context);
    };
    if (first.scaled_within()) {
        launch_tile<kit::e4m3, Weights::scaled>(op, config.tile, args, context);
    } else if (is_fp8(op.a.dtype)) {
        launch_tile<kit::e4m3, Weights::rows>(op, config.tile, args, context);
    } else if (op.a.dtype == DType::bf16) {
        launch(static_cast<kit::bf16*>(nullptr));
    } else {
        launch(static_cast<kit::half*>(nullptr));
    }
}

std::string describe_mma(const GroupedGemm& op, const DeviceInfo& device) {
    return grouped::to_string(grouped::mma_config(op, device));
}

std::string describe_wgmma(const GroupedGemm& op, const DeviceInfo& device) {
    return grouped::to_string(grouped::wgmma_config(op, device));
}

const RegisterImplementations<GroupedGemm> kKernels{
    kit::kTarget,
    {{"wgmma", grouped::wgmma_decline, describe_wgmma, launch_grouped_wgmma},
     {"mma_sync", grouped::mma_decline, describe_mma, launch_mma}}};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
