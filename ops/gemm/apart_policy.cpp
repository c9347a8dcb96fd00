// gemm whose sums are finished in a pass of their own: which calls that is faster for.
#include "ops/gemm/apart.h"

#include "ops/gemm/scratch.h"

namespace weft::gemm {
namespace {

// From which size on it is asked, in multiplications: where `fma` would take the call, which has no tensor cores, and where
// `mma_sync` would. A block of `fma` goes through k alone, so a long k is asked for as well, however few the results.
constexpr std::int64_t kLeastByFma = std::int64_t{1} << 21, kLeastDepthByFma = 64;
constexpr std::int64_t kLeastByMma = std::int64_t{1} << 27;

}  // namespace

Apart apart(const Gemm& op, std::uintptr_t scratch) {
    const Problem p = problem(op);
    Apart made;
    made.stride = ceil_div(p.n, 4) * 4;
    const std::int64_t bytes = ceil_div(p.m * made.stride * std::int64_t{sizeof(float)}, 256) * 256;
    const auto sums = [&](const Tensor& weights) {
        Gemm product;
        product.a = op.a;
        product.b = weights;
        product.out = in_scratch(op.out, DType::fp32, made.stride, scratch + made.bytes);
        product.fast_accumulation = op.fast_accumulation;
        made.bytes += static_cast<std::size_t>(bytes);
        return product;
    };
    made.product = sums(op.b);
    if (op.up) made.up = sums(op.up);
    return made;
}

const char* apart_decline(const Gemm& op, const DeviceInfo& device) {
    if (op.packed() || op.scaled_within()) return "scales within a sum are no part of what comes after it";
    const Problem p = problem(op);
    if (p.k == 0) return "k is 0: nothing to multiply";
    if (apart(op).bytes > kMostScratch) return "its sums are more than 1 GiB of scratch";
    // Where nothing is known of times, which is so in the emulator, all kernels shall have a share of the calls.
    const bool mma = mma_decline(op, device) == nullptr, known = device.launch_us > 0;
    const std::int64_t products = p.m * p.n * p.k;
    const bool few = mma ? products < kLeastByMma : products < kLeastByFma && p.k < kLeastDepthByFma;
    if (known ? few : p.m % 2 == 0) return "too few products for sums that go through memory";
    // (Seen on an H200: with 4099 columns both products and the pass took longer than mma_sync.)
    if (mma && known && p.n % 8 != 0) return "the library is slow where rows of sums are no whole vectors";
    return nullptr;
}

}  // namespace weft::gemm
