// Attention whose products are those of fp8: which calls.
#include <limits>

#include "ops/attention/fp8.h"
#include "ops/attention/wgmma.h"
#include "ops/attention/wide.h"

namespace weft::attention {
namespace {

constexpr std::int64_t kAlignment = 128;

std::int64_t aligned(std::int64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

TransposedValues::TransposedValues(const Attention& of, void* at)
    : codes(at, of.v.dtype,
            {of.v.dim(0), of.v.dim(2), of.v.dim(3),
             (of.v.dim(1) + kTransposedKeys - 1) / kTransposedKeys * kTransposedKeys},
            of.v.device) {
    const std::int64_t values = aligned(codes.numel());
    factors = reinterpret_cast<float*>(static_cast<char*>(at) + values);
    bytes = static_cast<std::size_t>(values + aligned(std::int64_t{2 * sizeof(float)} * of.k.dim(2)));
}

const char* decline_fp8(const Attention& op, const DeviceInfo& device) {
    if (!op.fp8_weights) return "weights may not be rounded to fp8 (fp8_weights)";
    if (const char* why = decline_wide(op, device))
        return why;  // so that flash_wide takes whatever this one takes
    const Problem problem(op);
    if (op.v.dim(3) != op.q.dim(3) || op.q.dim(3) > kWgmmaCodeHeadDims[1])
        return "keys and values of this kernel are alike in width, up to 128 columns";
    if (problem.ragged || problem.options)
        return "pages, packed sequences, windows, cap and sinks are no part of this kernel";
    if (const char* why = decline_tiles(op, device)) return why;
    const std::int64_t columns = op.v.dim(3) * problem.heads;
    if (problem.keys > std::numeric_limits<std::int32_t>::max() / kTransposedKeys ||
        columns > std::numeric_limits<std::int32_t>::max() / (problem.keys / kTransposedKeys + 1))
        return "too many tiles of values for one grid";
    return nullptr;
}

}  // namespace weft::attention
