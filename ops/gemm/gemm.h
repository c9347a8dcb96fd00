// Matrix product with its epilogue: out = act(scale_a·scale_b·(a @ bᵀ) + bias) · gate + residual; the activation's
// value times a second product where there is `up`.
#pragma once

#include <optional>
#include <string>

#include "weft/activation.h"
#include "weft/families.h"

namespace weft {

// out[m, n] = round((act(a_scale · b_scale · Σ_k a[m, k] · b[n, k] + bias[n]) · gate[m, n] + residual[m, n]) / out_scale)
//
// Each operand has a scale: one number (a_scale, b_scale), one a row (a_token_scale, b_channel_scale), or one for
// each 128 columns of a's rows (a_group_scale) and each 128 rows by 128 columns of b (b_block_scale), which changes
// within the sum: it multiplies the products of its 128 of k. Any of a's goes with any of b's. fast_accumulation asks for
// nothing where groups or blocks have scales: their products are summed in fp32 anyway.
//
// Operands may be int8, both, with scales of tensors, rows and channels. Tensor cores sum their products as whole numbers,
// exactly; what has no tensor cores, and sums of more than 131071 products, go through fp32.
//
// Weights of four bits, fp4_e2m1 beside an a of 16 or 32 bits or of four bits itself, have a scale for each 16 columns of a
// row (fp8_e4m3: NVFP4) or each 32 (ue8m0: MXFP4), either in rows (b_group_scale) or in tiles of 128 rows by 4 groups, as
// block-scaled instructions read them (b_swizzled_scale); b_scale is then NVFP4's second level. A code times such a scale has
// at most six bits, so that the product of 16-bit numbers that tensor cores make of it loses nothing.
//
// Weights of int4 (AWQ, GPTQ, torchao) beside an a of 16 or 32 bits have a scale for each `group` columns of a row, 128, 64 or
// 32, in fp16, bf16 or fp32, and may have a zero point: a weight is (code - zero) * scale. Checkpoints whose codes u and zero
// points z are 0..15 have code = u - 8, which is u ^ 8 in each nibble, and zero = z - 8, so that u - z stays. A scale for all
// of a row is one of a group stride of 0. code - zero is exact in 16 bits; tensor cores multiply it times its scale as a number
// of a's dtype, rounded once where the scale has a's dtype too. So results are as exact as those of weights that a checkpoint
// keeps in a's dtype. Where such a number is beyond a's dtype (fp16: 65504), results are not determined.
//
// gate and residual broadcast to out's rows (weft/row_map.h): the gate of a DiT's block is one row for each batch, a position
// embedding is a residual that all batches share.
//
// `b` is always [n, k] by name. How it lies in memory is a matter of its strides: a weight as PyTorch keeps
// it (each output's row contiguous; "TN") is dense, and a [k, n] matrix ("NN") is passed as its transposed
// view, strides {1, n}. Both are fast; any other strides work, slower.
//
// With `up`, [n, k] as well and of any strides, the activation's value gates a second product of the same a:
//
// out = round((act(…) · (a_scale · up_scale · Σ_k a[m, k] · up[n, k] + up_bias[n]) · gate + residual) / out_scale)
//
// Merged weights [2n, k], the gate's rows first, are passed as two slices of rows; interleaved ones as two
// strided views.
struct Gemm {
    static constexpr std::string_view kName = "gemm";
    using Activation = weft::Activation;

    Tensor a{}, b{}, a_scale{}, b_scale{}, a_token_scale{}, b_channel_scale{}, bias{};
    Tensor up{}, up_scale{}, up_channel_scale{}, up_bias{};
    Tensor a_group_scale{}, b_block_scale{}, up_block_scale{};
    Tensor a_swizzled_scale{}, b_group_scale{}, b_swizzled_scale{}, up_group_scale{}, up_swizzled_scale{};
    Tensor b_group_zero{}, up_group_zero{};
    Tensor gate{}, residual{}, out_scale{}, out{};
    Activation activation = Activation::none;
    bool fast_accumulation = false;
    std::int64_t group = 128;  // columns of int4 that share a scale

    // Whether weights are codes of four bits, whose groups have scales; then a may be, too, of fp4_e2m1.
    bool packed() const { return bits(b.dtype) == 4; }
    bool whole_codes() const { return b.dtype == DType::int4; }
    // Whether scales change within a sum, but for those by which codes of four bits are made into numbers.
    bool scaled_within() const { return !packed() && (a_group_scale || b_block_scale || up_block_scale); }

    static const Contract& contract();
};

namespace detail {

inline std::optional<Violation> gemm_dtypes(const Gemm& op) {
    const bool same = op.a.dtype == op.b.dtype || (is_fp8(op.a.dtype) && is_fp8(op.b.dtype));
    if (same || (op.packed() && kFloat.contains(op.a.dtype))) return std::nullopt;
    return Violation{"b", "expected a's dtype " + std::string(name(op.a.dtype)) +
                              ", or fp8 both, or fp4_e2m1 or int4 beside 16 or 32 bits, got " +
                              std::string(name(op.b.dtype))};
}

// Codes of four bits say nothing without their groups' scales, and are read in rows.
inline std::optional<Violation> gemm_packed(const Gemm& op) {
    struct Operand {
        const char *name, *scale;
        const Tensor &codes, &groups, &swizzled;
    };
    for (const Operand& of :
         {Operand{"a", "a_group_scale", op.a, op.a_group_scale, op.a_swizzled_scale},
          Operand{"b", "b_group_scale", op.b, op.b_group_scale, op.b_swizzled_scale},
          Operand{"up", "up_group_scale", op.up, op.up_group_scale, op.up_swizzled_scale}}) {
        if (!of.codes || bits(of.codes.dtype) != 4) continue;
        if (!of.groups && !of.swizzled) {
            return Violation{of.scale, of.codes.dtype == DType::int4
                                           ? "expected one for int4, got none"
                                           : "expected this or the swizzled one for fp4_e2m1, got neither"};
        }
        const int last = of.codes.rank - 1;
        if (of.codes.shape[last] > 1 && of.codes.stride[last] != 1) {
            return Violation{of.name, "expected " + std::string(name(of.codes.dtype)) +
                                          " with k contiguous, got " + to_string(of.codes)};
        }
    }
    if (op.group == 32 || op.group == 64 || op.group == 128) return std::nullopt;
    return Violation{"group", "expected 32, 64 or 128, got " + std::to_string(op.group)};
}

// A scale of the groups of an operand of four bits, fp8_e4m3 (NVFP4) or ue8m0 (MX), which lies along the axes `axes`. `group`:
// the axis of their columns. `whole`: of those of int4, too, whose dtypes leave that axis to the option of its name.
inline Describe<Gemm>& gemm_packed_scale(Describe<Gemm>& op, const std::string& operand,
                                         const std::string& name, Tensor Gemm::* member,
                                         const std::string& axes, const std::string& group,
                                         const std::string& meaning, Layout layout, bool whole = false) {
    constexpr DTypeSet kOfFp4{DType::fp8_e4m3, DType::ue8m0};
    DTypeChoices beside = {{DType::fp4_e2m1, {DType::fp8_e4m3, DType::ue8m0}}};
    if (whole) beside.push_back({DType::int4, {DType::bf16, DType::fp16, DType::fp32}});
    return op.in(operand + name, member, axes, whole ? kOfFp4 | kFloat : kOfFp4, meaning)
        .optional()
        .layout(layout)
        .sizes_by_dtype(group, family::group_sizes({DType::fp8_e4m3, DType::ue8m0}))
        .dtype_beside(operand, std::move(beside))
        .fill(Fill::scale());
}

// What is subtracted from the codes of int4 of a group, before they are multiplied by its scale.
inline void gemm_group_zero(Describe<Gemm>& op, const std::string& weights, Tensor Gemm::* member) {
    op.in(weights + "_group_zero", member, "n ceil(k/group)", DType::int8,
          "what is subtracted from each code of a group of int4; absent: 0")
        .optional()
        .layout(Layout::dense)
        .needs(weights + "_group_scale")
        .dtype_beside(weights, {{DType::int4, {DType::int8}}})
        .fill(Fill::uniform(-8, 8));
}

inline void gemm_packed_scales(Describe<Gemm>& op) {
    const std::string tiles = "the same in tiles of 128 rows by 4 groups, instead of ";
    gemm_packed_scale(op, "a", "_swizzled_scale", &Gemm::a_swizzled_scale,
                      "pad(...,128) pad(ceil(k/a_group),4)", "a_group", tiles + "a_group_scale",
                      Layout::dense)
        .excludes("a_group_scale")
        .excludes("a_token_scale");
    const auto of_weights = [&](const std::string& weights, Tensor Gemm::* linear, Tensor Gemm::* swizzled) {
        const auto alike = [&] {  // up's are b's, and stand beside up
            if (weights == "up") op.needs("up").like("b_group_scale").like("b_swizzled_scale");
        };
        gemm_packed_scale(
            op, weights, "_group_scale", linear, "n ceil(k/group)", "group",
            "what each 16 columns of a row of fp4_e2m1 are multiplied by, with ue8m0 each 32, of int4 each "
            "`group`",
            Layout::strided, true);
        alike();
        gemm_packed_scale(op, weights, "_swizzled_scale", swizzled, "pad(n,128) pad(ceil(k/group),4)",
                          "group", tiles + weights + "_group_scale", Layout::dense)
            .excludes(weights + "_group_scale");
        alike();
    };
    of_weights("b", &Gemm::b_group_scale, &Gemm::b_swizzled_scale);
    of_weights("up", &Gemm::up_group_scale, &Gemm::up_swizzled_scale);
    gemm_group_zero(op, "b", &Gemm::b_group_zero);
    gemm_group_zero(op, "up", &Gemm::up_group_zero);
    op.require(gemm_packed);
}

inline void gemm_up(Describe<Gemm>& op) {
    op.in("up", &Gemm::up, "n k", kFloat | kNarrow | DType::int4,
          "weights of the product that the activation's value gates")
        .optional()
        .layout(Layout::strided)
        .like("b")
        .in("up_scale", &Gemm::up_scale, "1", DType::fp32, "what up's stored values are multiplied by")
        .optional()
        .needs("up")
        .fill(Fill::scale())
        .in("up_channel_scale", &Gemm::up_channel_scale, "n", DType::fp32,
            "what each row of up is multiplied by, instead of up_scale")
        .optional()
        .needs("up")
        .scale_of("up")
        .excludes("up_scale")
        .fill(Fill::scale())
        .in("up_block_scale", &Gemm::up_block_scale, "ceil(n/128) ceil(k/128)", DType::fp32,
            "what each 128 rows by 128 columns of up are multiplied by, instead of up_scale")
        .optional()
        .layout(Layout::strided)
        .needs("up")
        .dtype_beside("up", {{DType::fp8_e4m3, {DType::fp32}}, {DType::fp8_e5m2, {DType::fp32}}})
        .excludes("up_scale")
        .excludes("up_channel_scale")
        .fill(Fill::scale())
        .in("up_bias", &Gemm::up_bias, "n", kFloat, "added to up's product")
        .optional()
        .needs("up");
}

inline void gemm_row_scales(Describe<Gemm>& op) {
    op.in("a_token_scale", &Gemm::a_token_scale, "...", DType::fp32,
          "what each row of a is multiplied by, instead of a_scale")
        .optional()
        .layout(Layout::dense)
        .scale_of("a")
        .excludes("a_scale")
        .fill(Fill::scale())
        .in("b_channel_scale", &Gemm::b_channel_scale, "n", DType::fp32,
            "what each row of b is multiplied by, instead of b_scale")
        .optional()
        .scale_of("b")
        .excludes("b_scale")
        .fill(Fill::scale());
}

// Scales of groups of fp8 stand alone; NVFP4's are under the tensor's.
inline std::optional<Violation> gemm_groups(const Gemm& op) {
    if (!op.a_group_scale) return std::nullopt;
    if (op.a_scale && !op.packed())
        return Violation{"a_group_scale", "expected a_scale or a_group_scale, got both"};
    if (leading_stride(op.a_group_scale, 1)) return std::nullopt;
    return Violation{"a_group_scale", "the leading axes must fold into rows of one stride"};
}

inline void gemm_group_scales(Describe<Gemm>& op) {
    op.in("a_group_scale", &Gemm::a_group_scale, "... ceil(k/a_group)",
          {DType::fp32, DType::fp8_e4m3, DType::ue8m0},
          "what each 128 columns of a row of a are multiplied by, instead of a_scale, of fp4_e2m1 each 16 "
          "(fp8_e4m3) or 32 (ue8m0); may be column-major")
        .optional()
        .layout(Layout::strided)
        .sizes_by_dtype("a_group", family::group_sizes({DType::fp32, DType::fp8_e4m3, DType::ue8m0}))
        .dtype_beside("a", {{DType::fp8_e4m3, {DType::fp32}},
                            {DType::fp8_e5m2, {DType::fp32}},
                            {DType::fp4_e2m1, {DType::fp8_e4m3, DType::ue8m0}}})
        .excludes("a_token_scale")
        .fill(Fill::scale())
        .in("b_block_scale", &Gemm::b_block_scale, "ceil(n/128) ceil(k/128)", DType::fp32,
            "what each 128 rows by 128 columns of b are multiplied by, instead of b_scale")
        .optional()
        .layout(Layout::strided)
        .dtype_beside("b", {{DType::fp8_e4m3, {DType::fp32}}, {DType::fp8_e5m2, {DType::fp32}}})
        .excludes("b_scale")
        .excludes("b_channel_scale")
        .fill(Fill::scale())
        .require(gemm_groups);
}

inline void gemm_scales(Describe<Gemm>& op) {
    op.in("a_scale", &Gemm::a_scale, "1", DType::fp32, "what a's stored values are multiplied by")
        .optional()
        .fill(Fill::scale())
        .in("b_scale", &Gemm::b_scale, "1", DType::fp32, "what b's stored values are multiplied by")
        .optional()
        .fill(Fill::scale());
    gemm_row_scales(op);
    gemm_group_scales(op);
}

inline double gemm_flops(const Gemm& op) {
    return (op.up ? 4.0 : 2.0) * static_cast<double>(op.out.numel()) * static_cast<double>(op.b.dim(-1));
}

}  // namespace detail

inline const Contract& Gemm::contract() {
    constexpr DTypeSet kStored = kFloat | kFp8, kOperand = kStored | kNarrow;
    static const Contract c =
        Describe<Gemm>(
            std::string(kName),
            "out = (act(a_scale * b_scale * (a @ b.T) + bias) [* (a_scale * up_scale * (a @ up.T) + "
            "up_bias)] * gate + residual) / out_scale")
            .in("a", &Gemm::a, "... k", kOperand, "activations")
            .in("b", &Gemm::b, "n k", kOperand | DType::int4,
                "weights; a [k, n] matrix is passed as its transposed view")
            .layout(Layout::strided)
            .with(detail::gemm_scales)
            .in("bias", &Gemm::bias, "n", kFloat, "added before the activation")
            .optional()
            .with(detail::gemm_up)
            .in("gate", &Gemm::gate, "~... n", kFloat, "multiplies what comes of the activation and up")
            .optional()
            .in("residual", &Gemm::residual, "~... n", kFloat, "added then")
            .optional()
            .in("out_scale", &Gemm::out_scale, "1", DType::fp32, "the scale of an fp8 out")
            .optional()
            .scale_of("out")
            .fill(Fill::scale(0.05, 0.5))
            .with(detail::gemm_packed_scales)
            .out("out", &Gemm::out, "... n", kStored, "the product after its epilogue")
            .in_place_of("residual")
            .option("activation", &Gemm::activation,
                    {Activation::none, Activation::gelu_tanh, Activation::gelu_erf, Activation::silu},
                    "after the bias")
            .option(
                "fast_accumulation", &Gemm::fast_accumulation,
                "fp8: let the tensor cores keep their short accumulator over all of k (faster, less exact)")
            .option("group", &Gemm::group, 32, 128, "columns of int4 that share a scale: 32, 64 or 128",
                    {128, 64, 32})
            .sizes("n", {1, 2, 7, 8, 15, 16, 24, 31, 40, 63, 64, 65, 72, 96, 128, 129, 136, 200, 256})
            .sizes("k",
                   {1, 2, 5, 8, 15, 16, 17, 32, 48, 63, 64, 65, 96, 100, 128, 130, 192, 256, 400, 513, 1024})
            .require(detail::gemm_dtypes)
            .flops(detail::gemm_flops, &Gemm::a)
            .independent({"...", "n"})
            .tolerance(
                "u * sum|a*b| * scales + 2^-24 * (2|product| + |bias| + |residual|), through the "
                "activation's slope (at most 1.13) and 12 * 2^-24 of its argument. u = (k + 32) * 2^-24: "
                "fp32 "
                "accumulation in any order; fp8 adds 2^-9, for the 13 fraction bits that Hopper's fp8 "
                "accumulator keeps until it is promoted to fp32; fast_accumulation adds 2^-8 of every 32nd "
                "partial sum; scales of groups and blocks add 4 * 2^-24; int4 beside 16 bits adds the "
                "rounding of a weight to a's dtype, 2^-8 (bf16) or 2^-11 (fp16), twice where its scale has "
                "another. gelu_tanh into 16 or 8 bits: tanh "
                "to 2^-11 relative, as the hardware's "
                "instruction gives it. up and gate: each factor's error times the other, and 2^-24 of the "
                "product. A residual beside a 16-bit out, without a gate: the product may be rounded to "
                "out's "
                "dtype before the sum is (cuBLASLt does, on some shapes)")
            .source(
                "torch addmm, _scaled_mm, _int_mm and linear with their epilogues; cublasLtMatmul; gated "
                "linear units "
                "(arXiv:2002.05202)");
    return c;
}

}  // namespace weft
