// Products of groups of rows, each with weights of its own: the experts of a mixture, the number of whose rows the device
// alone knows, and batches of equal products.
#pragma once

#include <optional>
#include <string>

#include "weft/activation.h"
#include "weft/contract.h"

namespace weft {

// out[r, n] = round(act(a_scale · b_scale[g] · Σ_k a[r, k] · b[g, n, k] + bias[g, n])) for every row r of group g
//
// Without more, each group has rows of its own, a[groups, rows, k] and out[groups, rows, n]: a batch of products (torch.bmm).
// Which rows a group has may instead be numbers in the device's memory, of one of two kinds: nothing waits for them on the host,
// and a captured call serves other numbers.
//
// group_ends: the groups' rows lie one after the other, a[m, k] and out[m, n], those of group g from group_ends[g - 1] (0 for
// the first) to group_ends[g]. Groups may be empty, of any size, and need no alignment. An end below the one before is that one,
// one beyond m is m.
// counts: of the rows of each group's own, which are then room, the first counts[g] are there. A count below 0 is 0, one beyond
// rows is rows.
//
// Rows of out that no group has keep their bits, and such rows of a are not looked at.
//
// b is [groups, n, k] of any strides: weights of k contiguous ("TN") are dense, those of n contiguous are the transposed view
// of a [groups, k, n] tensor.
//
// Scales, of fp8 alone: one number for a or one for each 128 columns of its rows (a_group_scale), one for each group's weights
// or one for each 128 rows by 128 columns of these (b_block_scale). Those of groups and blocks change within the sum.
//
// With `up`, [groups, n, k] as well, the activation's value gates a second product of the same rows, as gemm's does:
//
// out = round(act(…) · (a_scale · up_scale[g] · Σ_k a[r, k] · up[g, n, k] + up_bias[g, n]))
//
// expected_rows is about how many rows a group has, where the shape does not say it (0: it does, m / groups or rows). It helps
// to choose a tile and changes no result.
struct GroupedGemm {
    static constexpr std::string_view kName = "grouped_gemm";
    using Activation = weft::Activation;

    Tensor a{}, b{}, group_ends{}, counts{};
    Tensor a_scale{}, b_scale{}, a_group_scale{}, b_block_scale{}, bias{};
    Tensor up{}, up_scale{}, up_block_scale{}, up_bias{};
    Tensor out{};
    Activation activation = Activation::none;
    std::int64_t expected_rows = 0;

    std::int64_t groups() const { return b.dim(0); }
    std::int64_t n() const { return b.dim(1); }
    std::int64_t k() const { return b.dim(2); }
    // Whether each group has a matrix of rows of its own; else all rows lie in one.
    bool apart() const { return !group_ends; }
    // Whose numbers say which rows a group has; absent where it has all of its own.
    const Tensor& numbers() const { return counts ? counts : group_ends; }
    // That a group may have, from its first on: all of a, or those of the group.
    std::int64_t rows() const { return a.dim(-2); }

    static const Contract& contract();
};

namespace detail {

// What a matrix of weights, b or up, may have beside it.
inline void grouped_gemm_weights(Describe<GroupedGemm>& op, const std::string& name,
                                 Tensor GroupedGemm::* scale, Tensor GroupedGemm::* block,
                                 Tensor GroupedGemm::* bias) {
    const auto beside = [&]() -> Describe<GroupedGemm>& {
        return name == "up" ? op.optional().needs("up") : op.optional();
    };
    op.in(name + "_scale", scale, "groups", DType::fp32,
          "what the stored values of each group's " + name + " are multiplied by");
    beside().layout(Layout::dense).scale_of(name).fill(Fill::scale());
    op.in(
        name + "_block_scale", block, "groups ceil(n/128) ceil(k/128)", DType::fp32,
        "what each 128 rows by 128 columns of " + name + " are multiplied by, instead of " + name + "_scale");
    beside().layout(Layout::strided).scale_of(name).excludes(name + "_scale").fill(Fill::scale());
    op.in(name == "b" ? "bias" : name + "_bias", bias, "groups n", kFloat,
          "added to " + name + "'s product" + (name == "b" ? ", before the activation" : ""));
    beside();
}

inline constexpr DTypeSet kGroupedHalf = DTypeSet(DType::bf16) | DType::fp16,
                          kGroupedOperand = kGroupedHalf | DType::fp8_e4m3;

// The operands, and whose rows are whose.
inline void grouped_gemm_operands(Describe<GroupedGemm>& op) {
    op.in("a", &GroupedGemm::a, "groups rows k", kGroupedOperand,
          "activations; beside group_ends [m k], the groups' rows one after the other")
        .layout(Layout::inner)
        .picked_by("group_ends", "m k")
        .in("b", &GroupedGemm::b, "groups n k", kGroupedOperand,
            "weights; [groups, k, n] tensors are passed as their transposed view")
        .layout(Layout::strided)
        .like("a")
        .in("group_ends", &GroupedGemm::group_ends, "groups", DType::int32,
            "the row after the last of each group, whose first is where the one before ends")
        .optional()
        .layout(Layout::dense)
        .fill(Fill::ends("m").outside_is_defined())
        .in("counts", &GroupedGemm::counts, "groups", DType::int32,
            "how many rows of each group are there, the first ones")
        .optional()
        .layout(Layout::dense)
        .excludes("group_ends")
        .fill(Fill::lengths("rows"));
}

inline void grouped_gemm_scales_of_a(Describe<GroupedGemm>& op) {
    op.in("a_scale", &GroupedGemm::a_scale, "1", DType::fp32, "what a's stored values are multiplied by")
        .optional()
        .scale_of("a")
        .fill(Fill::scale())
        .in("a_group_scale", &GroupedGemm::a_group_scale, "groups rows ceil(k/128)", DType::fp32,
            "what each 128 columns of a row of a are multiplied by, instead of a_scale; may be column-major; "
            "beside group_ends [m ceil(k/128)]")
        .optional()
        .layout(Layout::strided)
        .picked_by("group_ends", "m ceil(k/128)")
        .scale_of("a")
        .excludes("a_scale")
        .fill(Fill::scale());
}

inline Work grouped_gemm_work(const GroupedGemm& op) {
    Work work;
    for (const Tensor* t :
         {&op.a, &op.b, &op.group_ends, &op.counts, &op.a_scale, &op.b_scale, &op.a_group_scale,
          &op.b_block_scale, &op.bias, &op.up, &op.up_scale, &op.up_block_scale, &op.up_bias, &op.out}) {
        if (*t) work.bytes += static_cast<double>(bytes(t->dtype, t->distinct()));
    }
    work.flops = (op.up ? 4.0 : 2.0) * static_cast<double>(op.out.numel()) * static_cast<double>(op.k());
    work.math = op.a.dtype;
    work.at_most = static_cast<bool>(op.numbers());  // groups may have fewer rows, or none
    return work;
}

}  // namespace detail

inline const Contract& GroupedGemm::contract() {
    static const Contract c =
        Describe<GroupedGemm>(
            std::string(kName),
            "out = act(a_scale * b_scale[g] * (a @ b[g].T) + bias[g]) [* (a_scale * up_scale[g] "
            "* (a @ up[g].T) + up_bias[g])] for the rows of each group g")
            .with(detail::grouped_gemm_operands)
            .with(detail::grouped_gemm_scales_of_a)
            .with(detail::grouped_gemm_weights, std::string("b"), &GroupedGemm::b_scale,
                  &GroupedGemm::b_block_scale, &GroupedGemm::bias)
            .in("up", &GroupedGemm::up, "groups n k", detail::kGroupedOperand,
                "weights of the product that the activation's value gates")
            .optional()
            .layout(Layout::strided)
            .like("b")
            .with(detail::grouped_gemm_weights, std::string("up"), &GroupedGemm::up_scale,
                  &GroupedGemm::up_block_scale, &GroupedGemm::up_bias)
            .out("out", &GroupedGemm::out, "groups rows n", detail::kGroupedHalf,
                 "the products; rows of no group keep their bits; beside group_ends [m n]")
            .layout(Layout::inner)
            .picked_by("group_ends", "m n")
            .partial()
            .option("activation", &GroupedGemm::activation,
                    {Activation::none, Activation::gelu_tanh, Activation::gelu_erf, Activation::silu},
                    "after the bias")
            .option("expected_rows", &GroupedGemm::expected_rows, 0, std::int64_t{1} << 31,
                    "about how many rows a group has; 0: as many as its share, or all of its own",
                    {0, 0, 5, 30, 100})
            .sizes("groups", {1, 2, 3, 5, 8, 33, 40})
            .sizes("m", {1, 2, 7, 16, 17, 40, 64, 65, 100, 129, 200, 300})
            .sizes("rows", {1, 2, 7, 16, 17, 40, 64, 65, 130})
            .sizes("n", {1, 2, 7, 8, 16, 24, 40, 63, 64, 65, 72, 128, 136, 200})
            .sizes("k", {1, 2, 5, 8, 16, 17, 32, 63, 64, 65, 100, 128, 130, 192, 256, 400, 513})
            .work(detail::grouped_gemm_work)
            .independent({"groups", "n"})
            .tolerance(
                "u * sum|a*b| * scales + 2^-24 * (2|product| + |bias|), through the activation's slope (at "
                "most "
                "1.13) and 12 * 2^-24 of its argument, as gemm's: u = (k + 32) * 2^-24; fp8 adds 2^-9, "
                "scales "
                "of groups and blocks 4 * 2^-24; gelu_tanh: tanh to 2^-11 relative. up: each factor's error "
                "times the other, and 2^-24 of the product")
            .source(
                "torch.bmm, _grouped_mm and _scaled_grouped_mm; DeepGEMM's grouped products, contiguous and "
                "masked; "
                "the experts of mixture models (arXiv:2101.03961)");
    return c;
}

}  // namespace weft
