// gemm on the CPU: panels widened to fp32, OpenBLAS's sgemm, the epilogue in fp32.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "ops/gemm/openblas_library.h"
#include "ops/gemm/problem.h"
#include "weft/op.h"

namespace weft {
namespace {

using gemm::Problem;

// Elements of fp32 that a panel of b, of a or of sums may hold: 16 MiB each, so memory stays bounded for any
// size.
constexpr std::int64_t kPanel = std::int64_t{4} << 20;

float widen(DType dtype, const void* data, std::int64_t index) {
    if (dtype == DType::fp32) return static_cast<const float*>(data)[index];
    if (dtype == DType::bf16) {
        return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(data)[index]} << 16);
    }
    return static_cast<float>(load_element(dtype, data, index));
}

void narrow(const Tensor& to, std::int64_t index, float value) {
    if (to.dtype == DType::bf16 && value == value) {  // to nearest even: the carry may run into the exponent
        const auto bits = std::bit_cast<std::uint32_t>(value);
        static_cast<std::uint16_t*>(to.data)[index] =
            static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    } else {
        store_element(to.dtype, to.data, index, value);
    }
}

// The numbers of a dtype of few bits, by code: that costs less than decoding each.
std::vector<float> numbers_of(DType dtype) {
    std::vector<float> table;
    for (std::uint64_t code = 0; bits(dtype) <= 8 && code < std::uint64_t{1} << bits(dtype); ++code)
        table.push_back(static_cast<float>(decode(dtype, code)));
    return table;
}

// fp32 rows [first, first + rows) of `length`, dense, times their scales.
void widen_rows(std::vector<float>& to, const Tensor& from, const gemm::ScalesAlong& scales,
                std::int64_t first, std::int64_t rows, std::int64_t length, std::int64_t stride,
                std::int64_t step) {
    to.resize(static_cast<std::size_t>(rows * length));
    const std::vector<float> numbers = numbers_of(from.dtype);
    const auto* codes = static_cast<const std::uint8_t*>(from.data);
    const bool pairs = bits(from.dtype) == 4;
    float* out = to.data();
    for (std::int64_t row = first; row < first + rows; ++row, out += length) {
        for (std::int64_t i = 0; i < length; ++i) {
            const std::int64_t index = row * stride + i * step;
            out[i] = numbers.empty() ? widen(from.dtype, from.data, index)
                     : pairs         ? numbers[codes[index / 2] >> index % 2 * 4 & 15]
                                     : numbers[codes[index]];
        }
        if (scales.groups.data == nullptr) continue;
        for (std::int64_t i = 0, end; i < length; i = end) {
            end = std::min(length, i + scales.columns());
            const float scale = scales.at(row, i), zero = scales.zero(row, i);
            for (std::int64_t j = i; j < end; ++j) out[j] = (out[j] - zero) * scale;
        }
    }
}

float gelu(Gemm::Activation kind, float x) {
    if (kind == Gemm::Activation::gelu_erf)
        return 0.5f * x * std::erfc(-x * static_cast<float>(1 / std::numbers::sqrt2));
    constexpr float kSlope = 0.7978845608f;  // sqrt(2 / pi)
    return 0.5f * x * (1 + std::tanh(kSlope * (x + 0.044715f * x * x * x)));
}

float scalar(const Tensor& t) { return t ? *t.as<float>() : 1.0f; }

// A panel of sums into out.
void finish(const Gemm& op, const Problem& p, const std::vector<float>& sums, std::int64_t row,
            std::int64_t rows, std::int64_t column, std::int64_t columns) {
    const float a_scale = scalar(op.a_scale), b_scale = scalar(op.b_scale);
    const float inverse = 1 / scalar(op.out_scale);
    const gemm::Beside gate(op.gate, op.out), residual(op.residual, op.out);
    const float* sum = sums.data();
    for (std::int64_t r = row; r < row + rows; ++r) {
        const float token_scale = op.a_token_scale ? op.a_token_scale.as<float>()[r] : a_scale;
        const std::int64_t gate_row = gate.row(r), residual_row = residual.row(r);
        for (std::int64_t c = column; c < column + columns; ++c) {
            const float channel_scale = op.b_channel_scale ? op.b_channel_scale.as<float>()[c] : b_scale;
            float value = *sum++ * (token_scale * channel_scale);
            if (op.bias) value += widen(op.bias.dtype, op.bias.data, c);
            if (op.activation != Gemm::Activation::none) value = gelu(op.activation, value);
            if (op.gate) value *= widen(op.gate.dtype, op.gate.data, gate_row + gate.column(c));
            if (op.residual)
                value += widen(op.residual.dtype, op.residual.data, residual_row + residual.column(c));
            if (op.out_scale) value *= inverse;
            narrow(op.out, r * p.out_stride + c, value);
        }
    }
}

// Columns [column, column + columns) of out, b's rows for them being in `b`.
void multiply(const Gemm& op, const Problem& p, const std::vector<float>& b, std::int64_t column,
              std::int64_t columns) {
    const std::int64_t most = std::max<std::int64_t>(1, kPanel / std::max(p.k, columns));
    std::vector<float> a, sums;
    for (std::int64_t row = 0; row < p.m; row += most) {
        const std::int64_t rows = std::min(most, p.m - row);
        sums.assign(static_cast<std::size_t>(rows * columns), 0.0f);
        if (p.k > 0) {
            const float* from = op.a.as<float>() + row * p.a_stride;
            std::int64_t stride = p.a_stride;
            if (op.a.dtype != DType::fp32 || stride < p.k || stride > std::numeric_limits<int>::max()) {
                widen_rows(a, op.a, gemm::scales_of_a(op), row, rows, p.k, p.a_stride, 1);
                from = a.data();
                stride = p.k;
            }
            gemm::find_sgemm()(gemm::kRowMajor, gemm::kNoTranspose, gemm::kTranspose, static_cast<int>(rows),
                               static_cast<int>(columns), static_cast<int>(p.k), 1.0f, from,
                               static_cast<int>(stride), b.data(), static_cast<int>(p.k), 0.0f, sums.data(),
                               static_cast<int>(columns));
        }
        finish(op, p, sums, row, rows, column, columns);
    }
}

const char* decline(const Gemm& op, const DeviceInfo&) {
    if (gemm::find_sgemm() == nullptr) return "libopenblas.so.0 was not found";
    if (op.up) return "its panels hold one product, not two";
    if (op.activation == Gemm::Activation::silu) return "it has no SiLU";
    return gemm::problem(op).k > kPanel ? "k is too long for a panel" : nullptr;
}
std::string config(const Gemm&, const DeviceInfo&) { return "fp32 panels of 16 MiB, sgemm"; }

void launch(const Gemm& op, Context&) {
    const Problem p = gemm::problem(op);
    const std::int64_t most = std::max<std::int64_t>(1, kPanel / std::max<std::int64_t>(p.k, 1));
    std::vector<float> b;
    for (std::int64_t column = 0; column < p.n; column += most) {
        const std::int64_t columns = std::min(most, p.n - column);
        widen_rows(b, op.b, gemm::scales_of_b(op), column, columns, p.k, p.b.row, p.b.step);
        multiply(op, p, b, column, columns);
    }
}

const RegisterImplementations<Gemm> kOpenblas{DeviceType::cpu, {{"openblas", decline, config, launch}}};

}  // namespace
}  // namespace weft
