// What cuBLASLt does not do, said before it is asked. Compiled everywhere, so that it is tested everywhere.
#include <algorithm>

#include "ops/gemm/aligned.h"
#include "ops/gemm/cublaslt.h"
#include "ops/gemm/problem.h"
#include "ops/gemm/wgmma.h"

namespace weft::gemm {
namespace {

bool aligned16(const Tensor& t, std::int64_t stride, std::int64_t rows) {
    return begins_whole(t, {.rows = rows, .stride = stride});
}

// The largest power of two, of up to 16 bytes, at whose multiples all rows begin.
std::uintptr_t alignment_of_rows(const Tensor& t, std::int64_t stride, std::int64_t rows) {
    const auto begins = reinterpret_cast<std::uintptr_t>(t.data) |
                        static_cast<std::uintptr_t>(rows <= 1 ? 0 : bytes(t.dtype, stride)) | 16;
    return begins & (~begins + 1);
}

// Whether it has kernels that round once (see Algorithm in cublaslt_plan.h). They read by the copy engine, which takes whole 16
// bytes, of a lone row too. The others round between the parts of an epilogue.
bool rounds_once(const Gemm& op, const Problem& p, const DeviceInfo& device) {
    const auto whole = [](const Tensor& t, std::int64_t stride) { return aligned16(t, stride, 2); };
    return device.arch >= 90 && device.arch < 100 && whole(op.a, p.a_stride) &&
           whole(op.b, is_tn(p.b) ? p.b.row : p.b.step) && whole(op.out, p.out_stride) &&
           (!op.residual || whole(op.residual, p.residual_stride));
}

const char* epilogue_limits(const Gemm& op, const Problem& p, const DeviceInfo& device) {
    if (op.up) return "it multiplies one product, not two";
    if (op.activation == Gemm::Activation::silu) return "it has no SiLU";
    if (op.activation == Gemm::Activation::gelu_erf) return "its GELU is the tanh form";
    if (op.activation == Gemm::Activation::gelu_tanh) {
        if (op.residual) return "it adds a residual before its GELU";
        if (op.out.dtype == DType::fp32) return "its GELU is not exact to fp32";
        if (!rounds_once(op, p, device))
            return "its kernels for this may round to out's dtype before the GELU";
    }
    if (op.bias && op.residual && op.out.dtype != DType::fp32 && !rounds_once(op, p, device))
        return "its kernels for this may round to out's dtype between residual and bias";
    if (op.a_token_scale || op.b_channel_scale || op.scaled_within())
        return "its scales are those of whole tensors";
    if (op.gate) return "it adds to the product itself, and has no gate";
    if (op.out_scale) return "it multiplies by an output scale, where gemm divides";
    return nullptr;
}

const char* dtype_limits(const Gemm& op, const DeviceInfo& device) {
    const DType out = op.out.dtype;
    if (op.packed()) return "of four bits it multiplies fp4 by fp4, on SM 10.0 and later";
    if (op.a.dtype == DType::int8) return "of int8 its results have no scales of rows";
    if (is_fp8(out)) return "it has no plan for an fp8 out (on an H200, of any size)";
    if (is_fp8(op.a.dtype)) {
        if (device.arch < 89) return "fp8 needs SM 8.9";
        if (op.a.dtype == DType::fp8_e5m2 && op.b.dtype == DType::fp8_e5m2) return "it has no e5m2 by e5m2";
        if (op.bias && out == DType::fp32 && op.bias.dtype != DType::bf16)
            return "with fp8 operands and fp32 out its bias is bf16";
    } else {
        if (op.a_scale || op.b_scale) return "its scales are for fp8 operands";
        if (out != op.a.dtype && out != DType::fp32) return "out has the operands' dtype or fp32";
    }
    if (op.residual && op.residual.dtype != out) return "its residual has out's dtype";
    const bool fp8_to_fp32 = is_fp8(op.a.dtype) && out == DType::fp32;
    if (op.bias && !fp8_to_fp32 && op.bias.dtype != out) return "its bias has out's dtype";
    return nullptr;
}

const char* layout_limits(const Gemm& op, const Problem& p) {
    if (op.residual && p.residual_stride == 0) return "its residual is a matrix: a row for each of out's";
    if (!is_tn(p.b) && !is_nn(p.b)) return "neither axis of b is contiguous";
    const std::int64_t b_stride = is_tn(p.b) ? p.b.row : p.b.step, b_length = is_tn(p.b) ? p.k : p.n;
    if (p.a_stride < p.k || b_stride < b_length || p.out_stride < p.n ||
        (op.residual && p.residual_stride < p.n)) {
        return "rows overlap";
    }
    // It chooses a kernel by the residual's rows, which then faults on out's (seen on an H200).
    if (op.residual &&
        alignment_of_rows(op.residual, p.residual_stride, p.m) > alignment_of_rows(op.out, p.out_stride, p.m))
        return "rows of its residual are better aligned than those of out";
    if (!is_fp8(op.a.dtype)) return nullptr;
    if (!is_tn(p.b)) return "fp8 needs k contiguous in both operands";
    if ((op.a_scale && !aligned16(op.a_scale, 0, 1)) || (op.b_scale && !aligned16(op.b_scale, 0, 1))) {
        return "it wants fp8 scales at multiples of 16 bytes";
    }
    if (p.n % 16 != 0 || p.k % 16 != 0) return "fp8 needs n and k to be multiples of 16";
    if (!aligned16(op.a, p.a_stride, p.m) || !aligned16(op.b, p.b.row, p.n) ||
        !aligned16(op.out, p.out_stride, p.m) ||
        (op.residual && !aligned16(op.residual, p.residual_stride, p.m)) ||
        (op.bias && !aligned16(op.bias, 0, 1))) {
        return "fp8 needs every row to begin at a multiple of 16 bytes";
    }
    return nullptr;
}

// Of few rows a product takes as long as its weights, if blocks share it along k. With a bias or a residual kernels that round
// the parts' sum first may not, and then took many times longer for 16 rows than for one (seen on an H200).
const char* size_limits(const Gemm& op, const Problem& p, const DeviceInfo& device) {
    constexpr std::int64_t kFewRows = 16, kLarge = std::int64_t{8} << 20;  // bytes of weights
    const bool whole = (op.bias || op.residual) && kHalf.contains(op.a.dtype) && !rounds_once(op, p, device);
    if (!whole || p.m <= 8 || p.m > kFewRows || bytes(op.b.dtype, p.n * p.k) <= kLarge) return nullptr;
    return "with a bias or residual it does not share up to 16 rows along k";
}

// Where rows of out are no whole 16 bytes its kernels took several times as long (seen on an H200), and wgmma's did not.
const char* slow_rows(const Gemm& op, const Problem& p, const DeviceInfo& device) {
    const bool whole = aligned16(op.out, p.out_stride, p.m) && bytes(op.out.dtype, p.n) % 16 == 0;
    if (whole || wgmma_decline(op, device) != nullptr) return nullptr;
    return "its kernels for rows of out of no whole 16 bytes are slow, and wgmma takes them";
}

}  // namespace

const char* cublaslt_limits(const Gemm& op, const DeviceInfo& device) {
    const Problem p = problem(op);
    if (p.k == 0) return "k is 0: nothing to multiply";
    if (const char* why = epilogue_limits(op, p, device)) return why;
    if (const char* why = dtype_limits(op, device)) return why;
    if (const char* why = layout_limits(op, p)) return why;
    if (const char* why = slow_rows(op, p, device)) return why;
    return size_limits(op, p, device);
}

#if !WEFT_HAS_CUBLASLT
const char* cublaslt_decline(const Gemm& op, const DeviceInfo& device) {
    const char* why = cublaslt_limits(op, device);
    return why != nullptr ? why : "weft was built without cublasLt.h";
}
std::string cublaslt_config(const Gemm&, const DeviceInfo&) { return ""; }
Readiness cublaslt_prepare(const Gemm&, Context&) { return {"weft was built without cublasLt.h"}; }
void cublaslt_launch(const Gemm&, Context&) { throw Refused(); }
#endif

}  // namespace weft::gemm
