// embedding's kernel.
#pragma once

#include "kit/elementwise.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;  // elements of a vector: 16 bytes of a 16-bit table

struct Table {
    kit::VectorRows rows;
    std::int64_t vocab;
    float scale;
};

struct Ids {
    const void* data;
    bool wide;  // 64 bits an id
};

// What     out[row] = table[ids[row]] · scale; zeros for an id outside the table
// Mapping  a thread owns one vector of 8 elements of a row (kit/elementwise.cuh), and reads its id
// Traffic  one table row and one output row an id: bound by memory, and by the latency of id, then row
// Needs    nothing: no id makes it read outside the table
template <class T, class Out>
__global__ void __launch_bounds__(256)
    embedding(Ids ids, Table table, kit::VectorRows out, kit::RowTiles tiles) {
    kit::for_each_vector<kWidth, Out>(tiles, [&](const auto& at) {
        const std::int64_t id = ids.wide ? static_cast<const std::int64_t*>(ids.data)[at.row]
                                         : static_cast<const std::int32_t*>(ids.data)[at.row];
        float values[kWidth] = {};
        if (id >= 0 && id < table.vocab) {
            auto from = at;
            from.row = static_cast<decltype(from.row)>(id);
            kit::load_row<T>(table.rows, from, values);
#pragma unroll
            for (float& value : values) value *= table.scale;
        }
        kit::store_row<Out>(out, at, values);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
