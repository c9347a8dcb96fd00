// embedding's kernel.
#pragma once

#include "kit/elementwise.cuh"
#include "kit/ptx/pdl.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kWidth = 8;
inline constexpr int kBatch = 4;

template <class T>
struct Table {
    const T* data;
    std::int64_t vocab, stride;
    bool aligned;
};

struct Ids {
    const void* data;
    bool wide;  // 64 bits an id
};

struct EmbeddingOut {
    void* data;
    std::int64_t stride;
    DType dtype;
    bool aligned;
};

// What     out[row] = table[ids[row]] · scale; zeros for an id outside the table
// Mapping  a thread owns kBatch vectors of a row, `lanes` vectors apart (kit/elementwise.cuh), and reads its id
// Traffic  one table row and one output row an id: bound by memory, and by the latency of id, then row
// Needs    nothing: no id makes it read outside the table
template <class T>
__global__ void __launch_bounds__(256)
    embedding(Ids ids, Table<T> table, float scale, EmbeddingOut out, kit::RowTiles tiles) {
    kit::dependency_wait();
    kit::dependents_launch();
    kit::for_each_tile<kWidth, kBatch>(tiles, [&](std::int64_t row, std::int64_t column, std::int64_t step) {
        const std::int64_t id = ids.wide ? static_cast<const std::int64_t*>(ids.data)[row]
                                         : static_cast<const std::int32_t*>(ids.data)[row];
        const bool known = id >= 0 && id < table.vocab;
        const T* from = table.data + (known ? id : 0) * table.stride;
        kit::Vec<T, kWidth> vectors[kBatch];
        kit::load_batch(vectors, from, known ? tiles.dim : 0, column, step, table.aligned);
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const std::int64_t at = column + b * step;
            float values[kWidth];
            kit::to_floats(vectors[b], values);
#pragma unroll
            for (float& value : values) value = known ? value * scale : 0.0f;
            kit::store_floats(out.dtype, out.data, row * out.stride + at, values,
                              kit::left<kWidth>(tiles.dim, at), out.aligned);
        }
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
