// gemm of operands that are copied to whole rows before: which calls that is faster for.
#include "ops/gemm/aligned.h"

#include <algorithm>

namespace weft::gemm {
namespace {

// Bytes a microsecond, and operations: of a multiprocessor of an H200.
constexpr double kMemory = 33e3, kWide = 4.5e6;
// Of the product in place: operations, and microseconds that every step along k takes beside.
struct Rates {
    double operations, step;
};
constexpr Rates rates_of(InPlace by) {
    return by == InPlace::library ? Rates{1.0e6, 0.5} : Rates{0.47e6, 0.9};
}

// Rows of copies, in elements: at multiples of 128 bytes, where the copy engine reads them best.
std::int64_t padded(DType dtype, std::int64_t length) {
    const std::int64_t whole = 128 * 8 / bits(dtype);
    return ceil_div(length, whole) * whole;
}

bool contiguous_along_n(const Gemm& op, Tensor Gemm::* operand) {
    return operand != &Gemm::a && !is_tn(weight_strides(op.*operand));
}

bool begins_whole(const Gemm& op, const Problem& p, Tensor Gemm::* operand) {
    return !(op.*operand) || gemm::begins_whole(op.*operand, rows_in_memory(op, p, operand));
}
bool whole_weights(const Gemm& op, const Problem& p) {
    return begins_whole(op, p, &Gemm::b) && begins_whole(op, p, &Gemm::up);
}

// Of whole groups of 64 tokens.
double operations(const Gemm& op) {
    const Problem p = problem(op);
    return 2.0 * static_cast<double>(ceil_div(p.m, 64) * 64) * static_cast<double>(p.n * p.k) *
           (op.up ? 2 : 1);
}

}  // namespace

RowsInMemory rows_in_memory(const Gemm& op, const Problem& p, Tensor Gemm::* operand) {
    if (operand == &Gemm::a) return {p.m, p.k, p.a_stride};
    const WeightStrides& s = operand == &Gemm::b ? p.b : p.up;
    return contiguous_along_n(op, operand) ? RowsInMemory{p.k, p.n, s.step} : RowsInMemory{p.n, p.k, s.row};
}

bool begins_whole(const Tensor& t, const RowsInMemory& rows) {
    return reinterpret_cast<std::uintptr_t>(t.data) % 16 == 0 &&
           (rows.rows <= 1 || bytes(t.dtype, rows.stride) % 16 == 0);
}

Remade aligned(const Gemm& op, std::uintptr_t scratch) {
    Remade made{op};
    const Problem p = problem(op);
    const bool weights = !whole_weights(op, p);
    for (Tensor Gemm::* operand : {&Gemm::b, &Gemm::up, &Gemm::a}) {
        const Tensor& from = op.*operand;
        if (operand == &Gemm::a ? begins_whole(op, p, operand) : !from || !weights) continue;
        const RowsInMemory rows = rows_in_memory(op, p, operand);
        const std::int64_t stride = padded(from.dtype, rows.length);
        Tensor& to = made.product.*operand;
        to = in_scratch(from, from.dtype, stride, scratch + made.bytes);
        if (contiguous_along_n(op, operand)) to.stride[0] = 1, to.stride[1] = stride;
        made.bytes += static_cast<std::size_t>(ceil_div(bytes(from.dtype, rows.rows * stride), 256) * 256);
    }
    return made;
}

double unaligned_cost(const Gemm& op, InPlace by, const DeviceInfo& device) {
    const Rates rates = rates_of(by);
    return device.launch_us + static_cast<double>(mma_steps(op)) * rates.step +
           operations(op) / (rates.operations * device.sms);
}

double aligned_cost(const Gemm& op, const DeviceInfo& device) {
    constexpr double kLaunches = 6, kMoved = 2;  // with what the first tiles wait for, twice
    return kLaunches * device.launch_us +
           kMoved * static_cast<double>(aligned(op).bytes) / (kMemory * device.sms) +
           operations(op) / (kWide * device.sms);
}

const char* aligned_decline(const Gemm& op, bool wide, InPlace instead, const DeviceInfo& device) {
    if (op.packed()) return "codes of four bits are unpacked, not copied";
    // First, for it is what most calls are asked.
    const Problem p = problem(op);
    if (whole_weights(op, p) && begins_whole(op, p, &Gemm::a))
        return "the rows of its operands begin at whole 16 bytes";
    if (const char* why = mma_decline(op, device)) return why;
    if (op.out.numel() == 0 || p.k == 0) return "nothing to multiply";
    if (!(is_tn(p.b) || is_nn(p.b)) || (op.up && is_tn(p.b) != is_tn(p.up)) ||
        (op.up && !(is_tn(p.up) || is_nn(p.up))))
        return "neither axis of its weights is contiguous, or b's and up's differ";
    if (aligned(op).bytes > kMostScratch) return "the copies are more than 1 GiB of scratch";
    if (!wide) return "neither wgmma nor the library takes the product of the copies";
    // Where nothing is known of times, which is so in the emulator, all kernels shall have a share of the calls.
    if (device.launch_us > 0 ? aligned_cost(op, device) >= unaligned_cost(op, instead, device)
                             : p.m <= tile_rows(MmaConfig::Tile::flat))
        return "too few products for copies of its operands: mma_sync reads them where they are";
    return nullptr;
}

const char* left_to_aligned(const Gemm& op, bool wide, const DeviceInfo& device) {
    if (aligned_decline(op, wide, InPlace::library, device) != nullptr) return nullptr;
    return "its kernels for rows of operands of no whole 16 bytes are slow, and their copies are soon made";
}

}  // namespace weft::gemm
