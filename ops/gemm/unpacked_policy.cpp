// gemm of weights that are unpacked before: which calls that is faster for.
#include "ops/gemm/unpacked.h"

#include <algorithm>

namespace weft::gemm {
namespace {

// Rows of numbers instead of codes, in elements: at multiples of 128 bytes, where the copy engine reads them best.
std::int64_t padded(std::int64_t length) { return ceil_div(length, 64) * 64; }

// Bytes a microsecond, and operations: of a multiprocessor of an H200 (kPacked: of 64 tokens by 4096 x 4096).
constexpr double kMemory = 33e3, kWide = 5.0e6, kMma = 2.8e6, kPacked = 0.56e6;

double elements(const Gemm& op) {
    const Problem p = problem(op);
    return static_cast<double>(p.n * p.k) * (op.up ? 2 : 1);
}

}  // namespace

Remade unpacked(const Gemm& op, std::uintptr_t scratch) {
    Remade made{op};
    const DType dtype = multiplied_as(op);
    for (Tensor Gemm::* operand : {&Gemm::b, &Gemm::up, &Gemm::a}) {
        const Tensor& codes = op.*operand;
        if (!codes || bits(codes.dtype) != 4) continue;
        made.product.*operand = in_scratch(codes, dtype, padded(codes.dim(-1)), scratch + made.bytes);
        const std::int64_t rows = codes.numel() / std::max<std::int64_t>(1, codes.dim(-1));
        made.bytes +=
            static_cast<std::size_t>(ceil_div(bytes(dtype, rows * padded(codes.dim(-1))), 256) * 256);
    }
    for (Tensor Gemm::* scales :
         {&Gemm::a_group_scale, &Gemm::a_swizzled_scale, &Gemm::b_group_scale, &Gemm::b_swizzled_scale,
          &Gemm::up_group_scale, &Gemm::up_swizzled_scale, &Gemm::b_group_zero, &Gemm::up_group_zero})
        made.product.*scales = {};
    return made;
}

double packed_cost(const Gemm& op, const DeviceInfo& device) {
    const auto rows = static_cast<double>(ceil_div(problem(op).m, 64) * 64);
    return 2 * rows * elements(op) / (kPacked * device.sms);
}

double unpacked_cost(const Gemm& op, bool wide, const DeviceInfo& device) {
    constexpr double kLaunches = 3, kRead = 0.5 + 1.0 / 16, kWritten = 2;  // a code: bytes
    const auto m = static_cast<double>(problem(op).m);
    const double k = static_cast<double>(op.b.dim(1)),
                 codes = elements(op) + (op.a.dtype == op.b.dtype ? m * k : 0);
    const double memory = kMemory * device.sms, rate = (wide ? kWide : kMma) * device.sms;
    return kLaunches * device.launch_us + codes * (kRead + kWritten) / memory +
           std::max(2 * m * elements(op) / rate, codes * kWritten / memory);
}

const char* unpacked_decline(const Gemm& op, bool wide, const DeviceInfo& device) {
    if (!op.packed()) return "its weights are no codes of four bits";
    if (const char* why = mma_decline(op, device)) return why;
    if (op.b.dim(1) == 0) return "k is 0: nothing to unpack";
    if (unpacked(op).bytes > kMostScratch)
        return "its weights as 16-bit numbers are more than 1 GiB of scratch";
    // Where nothing is known of times, which is so in the emulator, all kernels shall have a share of the calls.
    if (device.launch_us > 0 ? unpacked_cost(op, wide, device) >= packed_cost(op, device)
                             : problem(op).m <= tile_rows(MmaConfig::Tile::flat))
        return "too few tokens, or products, for what unpacking takes: mma_sync multiplies the codes as they "
               "are";
    return nullptr;
}

}  // namespace weft::gemm
