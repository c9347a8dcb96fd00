// How the rows of a tensor are dealt to threads: a pure function of sizes and device, for all row kernels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "weft/device_info.h"

namespace weft {

struct RowPlan {
    int width = 1;    // elements of a vector: 16 bytes of them, or 1 where rows have tails or begin unaligned
    int vectors = 1;  // vectors of a row that a thread holds in registers; 0: the row is read again instead
    int lanes = 32;   // threads of a block that share a row: a power of two up to 32, or the whole block
    int rows = 1;     // rows of a block
    int cluster = 1;  // blocks that share a row

    int threads() const { return lanes * rows; }
    std::int64_t blocks(std::int64_t all_rows) const { return (all_rows + rows - 1) / rows * cluster; }
    friend bool operator==(const RowPlan&, const RowPlan&) = default;
};

inline std::string to_string(const RowPlan& plan) {
    return "lanes=" + std::to_string(plan.lanes) + " vectors=" + std::to_string(plan.vectors) + "x" +
           std::to_string(plan.width) + " rows=" + std::to_string(plan.rows) +
           " cluster=" + std::to_string(plan.cluster);
}

// What a plan is made for: rows of dim elements, which may be moved as whole 16-byte vectors or not.
struct RowProblem {
    std::int64_t rows = 0, dim = 0;
    int element_bytes = 2;
    bool whole = true;
    int operands = 2;  // besides the row: weight, bias
};

namespace detail {

// Of row kernels: the numbers of vectors they are compiled for, the most threads of a block, and about the
// registers that a thread takes.
inline constexpr int kRowVectors[] = {1, 2, 4, 8, 16};
constexpr bool row_compiled(int vectors, int width, int element_bytes) {
    if (width == 1) return vectors == 0 || vectors == 4 || vectors == 16;
    return vectors <= 8 || element_bytes == 4;
}
constexpr int row_threads(int vectors) { return vectors == 1 || vectors == 2 ? 1024 : 512; }
// Operands that a thread holds beside the row: early loads hide latency, but registers are bytes in flight too.
constexpr int row_held(int vectors) { return vectors == 0 || vectors > 4 ? 0 : vectors > 2 ? 1 : 2; }
constexpr int row_registers(int vectors, int operands) {
    const int row = vectors <= 1 ? 36 : vectors <= 2 ? 48 : vectors <= 4 ? 62 : vectors <= 8 ? 94 : 128;
    return row + 4 * vectors * std::min(operands, row_held(vectors));
}

// The fewest lanes that hold `vectors` vectors: a power of two in a warp, whole warps above.
constexpr int row_lanes(std::int64_t vectors) {
    if (vectors > 32) return static_cast<int>(std::min<std::int64_t>((vectors + 31) / 32 * 32, 1 << 20));
    int lanes = 1;
    while (lanes < vectors) lanes *= 2;
    return lanes;
}

inline int resident_blocks(const RowPlan& plan, int operands, const DeviceInfo& device) {
    const int most = device.arch == 86 || device.arch == 89 || device.arch == 120 ? 1536 : 2048;
    return std::min({32, most / plan.threads(), 65536 / (row_registers(plan.vectors, operands) * plan.threads())});
}

// Larger is better. A plan whose blocks all fit on the device at once is judged by latency: few vectors one after
// the other, no cluster barrier without need. Any other by the bytes that an SM keeps in flight (more than 64 KiB
// gain nothing) and by whether several blocks take turns, so that one loads while another reduces or stores.
inline double row_score(const RowPlan& plan, const RowProblem& problem, const DeviceInfo& device) {
    const int resident = resident_blocks(plan, problem.operands, device);
    if (resident == 0) return -1;
    double split = 0;
    for (int c = plan.cluster; c > 1; c /= 2) split += 1;
    const std::int64_t room = std::int64_t{device.sms} * std::min(resident, std::max(1, 1024 / plan.threads()));
    if (plan.blocks(problem.rows) <= room) {
        return 1000 - plan.vectors - (plan.cluster > 1 ? 2 : 0) - 0.5 * split - (plan.lanes > 32 ? 0.25 : 0);
    }
    static constexpr double kOverlap[] = {0, 0.6, 0.85, 0.95, 1};
    const double row_bytes = static_cast<double>(problem.dim) * problem.element_bytes;
    const double in_flight = row_bytes * plan.rows / plan.cluster * resident / 1024;
    return 1 + std::min(in_flight, 64.0) * kOverlap[std::min(resident, 4)] * (1 - 0.02 * split) - 0.01 * plan.vectors;
}

}  // namespace detail

inline RowPlan plan_rows(const RowProblem& problem, const DeviceInfo& device) {
    const int width = problem.whole ? 16 / problem.element_bytes : 1;
    const std::int64_t vectors = std::max<std::int64_t>((problem.dim + width - 1) / width, 1);
    const int most_blocks = device.arch >= 90 ? std::max(device.max_cluster, 1) : 1;
    // Lanes of a row that read side by side: 256 bytes, where the row has them.
    const std::int64_t side_by_side = width == 1 ? 32 : 16;
    RowPlan best{.width = width, .vectors = 0, .lanes = 512, .rows = 1, .cluster = most_blocks};
    double best_score = -1;
    for (int cluster = 1; cluster <= most_blocks; cluster *= 2) {
        for (const int held : detail::kRowVectors) {
            if (!detail::row_compiled(held, width, problem.element_bytes)) continue;
            RowPlan plan{.width = width, .vectors = held, .cluster = cluster};
            plan.lanes = detail::row_lanes((vectors + std::int64_t{held} * cluster - 1) / (std::int64_t{held} * cluster));
            if (plan.lanes < side_by_side) {
                plan.lanes = detail::row_lanes(std::min(vectors, side_by_side));
                if (vectors <= std::int64_t{plan.lanes} * held / 2 && held > (width == 1 ? 4 : 1)) continue;
            }
            if (plan.lanes > detail::row_threads(held) || (cluster > 1 && plan.lanes < 128)) continue;
            if (plan.lanes <= 32) plan.rows = 128 / plan.lanes;
            const double score = detail::row_score(plan, problem, device);
            if (score > best_score) best = plan, best_score = score;
        }
    }
    return best;
}

}  // namespace weft
