// The modulation of row norms (family::modulation): what generated cases don't say, of both norms.
#include <gmock/gmock.h>

#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/ops/support.h"
#include "verify/fuzz.h"
#include "verify/verify.h"
#include "verify/workload.h"
#include "weft/op.h"

namespace weft {
namespace {

using test::HostTensor;
using test::rejection;
using ::testing::HasSubstr;

TEST(Modulation, RejectsWhatDoesNotBroadcast) {
    EXPECT_THAT(
        rejection("layer_norm x=bf16[2,6,8] mod_scale=bf16[6,8] out=bf16"),
        HasSubstr("layer_norm.mod_scale: expected [what broadcasts to ...=(2, 6), dim=8], got [6, 8]"));
    EXPECT_THAT(
        rejection("layer_norm x=bf16[2,6,8] mod_scale=bf16[2,3,1,8] mod_shift=bf16[2,2,1,8] out=bf16"),
        HasSubstr("layer_norm.mod_shift: expected"));
    EXPECT_THAT(rejection("rms_norm x=bf16[6,8] gate=bf16[8] out=bf16"),
                HasSubstr("rms_norm.gate: expected residual beside it, got none"));
    EXPECT_THAT(rejection("rms_norm x=bf16[6,8] mod_scale2=bf16[8] out=bf16"),
                HasSubstr("rms_norm.mod_scale2: expected out2 beside it, got none"));
    EXPECT_THAT(rejection("rms_norm x=bf16[6,8] mod_index=int32[6] out=bf16"),
                HasSubstr("rms_norm.mod_index: expected a table beside it"));
    EXPECT_THAT(rejection("rms_norm x=bf16[6,8] mod_index=int32[6] mod_scale=bf16[0,8] out=bf16"),
                HasSubstr("rms_norm.mod_scale: expected at least one row"));
    EXPECT_THAT(rejection("rms_norm x=bf16[6,8] mod_index=int32[6] mod_scale=bf16[2,1,8] out=bf16"),
                HasSubstr("rms_norm.mod_scale: expected"));
    EXPECT_THAT(rejection("rms_norm x=bf16[6,128] mod_scale=fp32[128] out=bf16 rounding=eager"),
                HasSubstr("rms_norm.mod_scale: expected x's dtype with rounding=eager, got fp32"));
    EXPECT_THAT(rejection("layer_norm x=bf16[6,128] mod_scale=fp16[128] out=bf16 rounding=eager"),
                HasSubstr("layer_norm.mod_scale: expected x's dtype or fp32 with rounding=eager, got fp16"));
    EXPECT_THAT(
        rejection("layer_norm x=bf16[6,128] mod_scale=fp32[128] mod_shift=bf16[128] out=bf16 rounding=eager"),
        HasSubstr("layer_norm.mod_shift: expected one dtype of all of the modulation"));
    EXPECT_THAT(
        rejection("layer_norm x=bf16[6,128] residual=bf16[6,128] gate=fp16[128] out=bf16 rounding=eager"),
        HasSubstr("layer_norm.gate: expected x's dtype or fp32"));
    EXPECT_THAT(rejection("layer_norm x=bf16[6,128] mod_scale=bf16[128] out=fp32 rounding=eager"),
                HasSubstr("layer_norm.out: expected x's dtype with rounding=eager, got fp32"));
    EXPECT_EQ(rejection("layer_norm x=bf16[6,128] mod_scale=fp32[128] out=bf16 rounding=eager"), "accepted");
}

// Rows of a table by number; one outside of it is refused where the host sees it (a GPU's kernel reads the nearest row).
TEST(Modulation, AnIndexPicksRowsOfTheTableAndNoOthers) {
    for (const Device device : test::host_devices()) {
        HostTensor x(DType::fp32, {4, 2}, {3, 3, 3, 3, 3, 3, 3, 3}), table(DType::fp32, {2, 2}, {1, 2, 3, 4}),
            out(DType::fp32, {4, 2});
        for (const DType dtype : {DType::int32, DType::int64}) {
            HostTensor index(dtype, {4}, {0, 0, 1, 1});
            run(RmsNorm{.x = x.on(device),
                        .mod_index = index.on(device),
                        .mod_shift = table.on(device),
                        .out = out.on(device),
                        .eps = 0});
            const double expected[] = {2, 3, 2, 3, 4, 5, 4, 5};
            for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], expected[i]) << i;
            index.set(2, 2);
            if (device != kCpu) continue;

            EXPECT_THAT(test::failure(RmsNorm{.x = x.on(device),
                                              .mod_index = index.on(device),
                                              .mod_shift = table.on(device),
                                              .out = out.on(device),
                                              .eps = 0}),
                        HasSubstr("rms_norm.mod_index: expected numbers in [0, table=2), got 2"));
        }
    }
}

// A row of 1 and -1 in turn is its own norm. On these numbers every rounding of PyTorch's operators shows: 1 + 2^-8 is 1 in
// bf16, and so is what follows; in one rounding it is 1 + 2^-7.
template <class Op>
void expect_both_modes() {
    constexpr int kDim = 128;
    HostTensor x(DType::bf16, {1, kDim}), gate(DType::bf16, {kDim}), residual(DType::bf16, {1, kDim}),
        mod(DType::bf16, {kDim});
    for (int i = 0; i < kDim; ++i) {
        x.set(i, i % 2 == 0 ? 1 : -1);
        mod.set(i, 0.00390625);
    }
    for (const Device device : test::host_devices()) {
        for (const bool eager : {false, true}) {
            HostTensor out(DType::bf16, {1, kDim}), out2(DType::bf16, {1, kDim}), sum(DType::bf16, {1, kDim});
            Op op{.x = x.on(device), .mod_scale = mod.on(device), .mod_shift = mod.on(device)};
            op.mod_shift2 = mod.on(device);
            op.out = out.on(device), op.out2 = out2.on(device);
            op.eps = 0;
            op.rounding = eager ? Rounding::eager : Rounding::fused;
            run(op);
            EXPECT_EQ(out[0], eager ? 1 : 1.0078125);
            EXPECT_EQ(out2[0], 1);

            HostTensor wide(DType::bf16, {1, kDim});
            for (int i = 0; i < kDim; ++i)
                wide.set(i, 1.0234375), gate.set(i, 1.0234375), residual.set(i, -1);
            Op gated{.x = wide.on(device), .residual = residual.on(device), .gate = gate.on(device)};
            gated.residual_out = sum.on(device);
            gated.out = out.on(device);
            gated.rounding = op.rounding;
            run(gated);
            EXPECT_EQ(sum[0], eager ? 0.046875 : 0.047363281250);
        }
    }
}
TEST(Modulation, RoundsOnceOrAfterEachStep) {
    expect_both_modes<LayerNorm>();
    expect_both_modes<RmsNorm>();
}

// One modulation of a norm without a weight runs where a weight would: no slower kernel than for a weight.
TEST(Modulation, TakesTheWeightsPlace) {
    if (test::configuration("layer_norm x=bf16[4,64] out=bf16").empty())
        GTEST_SKIP() << "no kernels in this build";
    EXPECT_EQ(test::configuration(
                  "layer_norm x=bf16[4096,3072] mod_scale=bf16[3072] mod_shift=bf16[3072] out=bf16"),
              test::configuration("layer_norm x=bf16[4096,3072] weight=bf16[3072] bias=bf16[3072] out=bf16"));
}

// Heads of a packed projection, as engines pass them, and transposed heads.
TEST(Modulation, RowsMayLieApart) {
    for (const char* line : {"rms_norm x=bf16[39,4,64]{512,64,1} weight=bf16[64] out=@x",
                             "layer_norm x=bf16[2,4,39,64]{9984,64,256,1} out=bf16[2,4,39,64]",
                             "softmax x=bf16[2,4,39,64]{9984,64,256,1} out=bf16[2,4,39,64]"}) {
        for (const Device device : devices_here())
            EXPECT_EQ(verify(Case::parse(line), device).why, "") << line;
    }
}

// Has an operand beside x another shape than x? Then its rows are shared, or picked.
bool broadcasts(const Case& c) {
    const std::vector<Field>& fields = c.contract().fields();
    const auto shape_of = [&](std::string_view name) -> const std::vector<std::int64_t>* {
        for (std::size_t i = 0; i < fields.size(); ++i) {
            if (fields[i].name == name && c.tensors[i].present) return &c.tensors[i].shape;
        }
        return nullptr;
    };
    for (const char* beside : {"mod_scale", "mod_shift", "gate"}) {
        if (const auto* shape = shape_of(beside); shape != nullptr && *shape != *shape_of("x")) return true;
    }
    return false;
}

// The same case with fewer tokens and columns. A size is the same one everywhere; batches, frames and rows of tables stay.
Case smaller(Case c) {
    c.infer();
    const std::int64_t dim = c.tensors.front().shape.back();
    for (TensorSpec& tensor : c.tensors) {
        for (std::int64_t& size : tensor.shape) {
            if (size > 64) size = size == dim ? 136 : 7 + size % 29;
        }
    }
    return c;
}

// The norms of diffusion models whose modulations and gates are one for all tokens, one a batch, or picked from a table.
TEST(Modulation, RowsOfDiffusionModelsThatBroadcast) {
    int lines = 0;
    for (const WorkloadRow& row : read_workload(WEFT_SOURCE_DIR "/workloads/diffusion.csv")) {
        if (!row.line.starts_with("layer_norm ") && !row.line.starts_with("rms_norm ")) continue;
        const Case full = Case::parse(row.line);
        if (!broadcasts(full)) continue;
        ++lines;
        const Case c = smaller(full);
        for (const Device device : devices_here())
            EXPECT_EQ(verify(c, device).why, "") << row.id << " as " << c.line();
    }
    EXPECT_GE(lines, 20);
}

}  // namespace
}  // namespace weft
