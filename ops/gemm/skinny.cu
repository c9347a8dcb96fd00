// gemm's kernel for few tokens, launched.
#include "kit/launch.h"
#include "ops/gemm/arguments.cuh"
#include "ops/gemm/skinny_kernel.cuh"
#include "ops/gemm/skinny_launch.h"

namespace weft::inline WEFT_TARGET {
namespace {

SkinnyOperand skinny_operand(const Tensor& t, int64_t rows, int64_t stride) {
    return {static_cast<const char*>(t.data), bytes(t.dtype, stride), static_cast<int>(rows)};
}

template <class T, int kTokenTiles, Codes kCodes>
void launch_tiles(const SkinnyArguments& args, unsigned blocks, Context& context) {
    kit::launch("gemm_skinny", gemm_skinny<T, kTokenTiles, kCodes>,
                {.grid = blocks,
                 .block = SkinnyConfig::kWarps * 32,
                 .cluster = static_cast<unsigned>(args.config.splits),
                 .dynamic_shared = static_cast<size_t>(args.config.parked_floats()) * sizeof(float),
                 .dependent = true},
                context.stream(), args);
}

template <class T, Codes kCodes>
void launch_codes(const SkinnyArguments& args, unsigned blocks, Context& context) {
    args.config.token_tiles == 1 ? launch_tiles<T, 1, kCodes>(args, blocks, context)
                                 : launch_tiles<T, 2, kCodes>(args, blocks, context);
}

// Of weights of four bits. fp16 does not meet scales of MX.
template <class T>
void launch_packed(const SkinnyArguments& args, unsigned blocks, Context& context) {
    if constexpr (sizeof(T) == 2) {
        const Codes codes = codes_of(args.first_scales.groups.dtype);
        if constexpr (std::is_same_v<T, kit::bf16>) {
            if (codes == Codes::mx) return launch_codes<T, Codes::mx>(args, blocks, context);
        }
        codes == Codes::whole ? launch_codes<T, Codes::whole>(args, blocks, context)
                              : launch_codes<T, Codes::nv>(args, blocks, context);
    }
}

}  // namespace

void launch_gemm_skinny(const Gemm& op, Context& context) {
    const gemm::Problem p = gemm::problem(op);
    const SkinnyConfig config = gemm::skinny_config(op, context.info());
    const SkinnyOperand b = skinny_operand(op.b, p.n, p.b.row);
    const gemm::ScalesAlong scales = op.packed() ? gemm::scales_of_b(op) : gemm::ScalesAlong{};
    const SkinnyArguments args{.tokens = skinny_operand(op.a, p.m, p.a_stride),
                               .first = b,
                               .second = op.up ? skinny_operand(op.up, p.n, p.up.row) : b,
                               .first_scales = scales,
                               .second_scales = op.packed() && op.up ? gemm::scales_of_up(op) : scales,
                               .epilogue = epilogue_of(op, p),
                               .row_bytes = static_cast<int>(bytes(op.b.dtype, p.k)),
                               .config = config};
    const auto blocks =
        static_cast<unsigned>(gemm::ceil_div(p.n, gemm::skinny_features(op, config)) * config.splits);
    kit::with_one_of<kit::bf16, kit::half, kit::e4m3, std::int8_t>(op.a.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        op.packed() ? launch_packed<T>(args, blocks, context)
                    : launch_codes<T, Codes::none>(args, blocks, context);
    });
}

}  // namespace weft::inline WEFT_TARGET
