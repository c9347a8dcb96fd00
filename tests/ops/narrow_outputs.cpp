// One quantiser serves every op that stores fewer bits. Where fp32 computes the values exactly, the codes and scales of a
// norm and of a gated activation are the reference's bit for bit, and those that `quantize` makes of the values.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ops/gated_activation/gated_activation.h"
#include "ops/quantize/quantize.h"
#include "ops/rms_norm/rms_norm.h"
#include "tests/ops/support.h"
#include "verify/fuzz.h"
#include "weft/memory.h"
#include "weft/op.h"

namespace weft {
namespace {

struct Format {
    const char* name;
    DType codes, scales;
    std::int64_t columns;  // of a group
    bool swizzled, two_levels;
};
constexpr Format kFormats[] = {
    {"NVFP4", DType::fp4_e2m1, DType::fp8_e4m3, 16, false, false},
    {"NVFP4 of two levels", DType::fp4_e2m1, DType::fp8_e4m3, 16, false, true},
    {"NVFP4 of two levels in tiles", DType::fp4_e2m1, DType::fp8_e4m3, 16, true, true},
    {"fp8 in groups of 128", DType::fp8_e4m3, DType::fp32, 128, false, false},
    {"fp8 in groups of 128, scales in tiles", DType::fp8_e4m3, DType::fp32, 128, true, false},
    {"MXFP8", DType::fp8_e4m3, DType::ue8m0, 32, false, false},
    {"MXFP4 in tiles", DType::fp4_e2m1, DType::ue8m0, 32, true, false},
};

std::int64_t rounded_up(std::int64_t size, std::int64_t to) { return (size + to - 1) / to * to; }

using Bytes = std::vector<unsigned char>;
using Stored = std::pair<Bytes, Bytes>;  // codes, scales

// Tensors of one device.
class Memory {
   public:
    explicit Memory(Device device) : device_(device) {}
    Tensor put(DType dtype, std::vector<std::int64_t> shape, const std::vector<double>& values) {
        test::HostTensor host(dtype, std::move(shape), values);
        const Tensor from = host.on(kCpu);
        const Tensor to = make(dtype, {from.shape, from.shape + from.rank});
        copy(to, from);
        return to;
    }
    Tensor make(DType dtype, const std::vector<std::int64_t>& shape) {
        kept_.push_back(allocate(dtype, shape, device_));
        fill_bytes(kept_.back().buffer.data(), device_, 0xa5, kept_.back().buffer.size());
        return kept_.back().view;
    }
    Bytes read(const Tensor& t) const {
        Bytes bytes(static_cast<std::size_t>(weft::bytes(t.dtype, t.numel())));
        copy_bytes(bytes.data(), kCpu, t.data, device_, bytes.size());
        return bytes;
    }

   private:
    Device device_;
    std::vector<OwnedTensor> kept_;
};

// What the op stores of `rows` rows of `dim` columns.
template <class Op>
Stored stored(Op op, const Format& format, std::int64_t rows, std::int64_t dim, Memory& memory) {
    const std::int64_t groups = rounded_up(dim, format.columns) / format.columns;
    op.out = memory.make(format.codes, {rows, dim});
    Tensor& scales = format.swizzled ? op.swizzled_scale : op.group_scale;
    scales = format.swizzled ? memory.make(format.scales, {rounded_up(rows, 128), rounded_up(groups, 4)})
                             : memory.make(format.scales, {rows, groups});
    if (format.two_levels) op.scale = memory.put(DType::fp32, {1}, {0.0123});
    run(op);
    return {memory.read(op.out), memory.read(scales)};
}

// Numbers of bf16 on both sides of 0, of many magnitudes.
std::vector<double> draw(std::int64_t count, std::uint64_t seed) {
    Random random(seed);
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& v : values) {
        const double mantissa = 1 + static_cast<double>(random.below(128)) / 128;
        v = std::ldexp(random.below(2) == 0 ? mantissa : -mantissa, static_cast<int>(random.below(7)) - 3);
    }
    return values;
}

// `make(memory)` is a call without outputs whose values are `values`.
template <class Make>
void expect_the_references_bits(std::int64_t rows, std::int64_t dim, const std::vector<double>& values,
                                const Make& make) {
    for (const Format& format : kFormats) {
        SCOPED_TRACE(format.name);
        Memory host(kCpu);
        const Stored expected = stored(make(host), format, rows, dim, host);
        EXPECT_EQ(stored(Quantize{.x = host.put(DType::fp32, {rows, dim}, values)}, format, rows, dim, host),
                  expected);
        for (const Device device : devices_here()) {
            Memory memory(device);
            EXPECT_EQ(stored(make(memory), format, rows, dim, memory), expected) << name(device.type);
        }
    }
}

// A row of 1 and -1 is its own norm, where a power of two many of them have the mean 1: what is stored is ±weight.
TEST(NarrowOutputs, OfANormAreTheReferencesBits) {
    constexpr std::int64_t kRows = 5, kDim = 512;
    const std::vector<double> weight = draw(kDim, 1), signs = draw(kRows * kDim, 2);
    std::vector<double> x, values;
    for (std::size_t i = 0; i < signs.size(); ++i) {
        x.push_back(signs[i] < 0 ? -1 : 1);
        values.push_back(x[i] * weight[i % static_cast<std::size_t>(kDim)]);
    }
    expect_the_references_bits(kRows, kDim, values, [&](Memory& memory) {
        return RmsNorm{.x = memory.put(DType::bf16, {kRows, kDim}, x),
                       .weight = memory.put(DType::bf16, {kDim}, weight),
                       .eps = 0};
    });
}

// relu(gate) · up has at most 16 bits. The last group of a row is short.
TEST(NarrowOutputs, OfAGatedActivationAreTheReferencesBits) {
    constexpr std::int64_t kRows = 5, kHidden = 272;
    const std::vector<double> gate = draw(kRows * kHidden, 3), up = draw(kRows * kHidden, 4);
    std::vector<double> values;
    for (std::size_t i = 0; i < gate.size(); ++i) values.push_back(std::max(gate[i], 0.0) * up[i]);
    expect_the_references_bits(kRows, kHidden, values, [&](Memory& memory) {
        GatedActivation op{};
        op.gate = memory.put(DType::bf16, {kRows, kHidden}, gate);
        op.up = memory.put(DType::bf16, {kRows, kHidden}, up);
        op.activation = Activation::relu;
        return op;
    });
}

}  // namespace
}  // namespace weft
