// gemm on wgmma: what a warp does with its sums. They stay in registers until they are out's dtype.
//
// A warp has 16 rows; its lane with g = lane / 4 and t = lane mod 4 holds in sums[4 j + 2 h + e] row g + 8 h,
// column 8 j + 2 t + e. The columns are two halves: of out's, or the gate's and then up's.
#pragma once

#include "kit/mma_tile.cuh"
#include "ops/gemm/epilogue.cuh"
#include "ops/gemm/wgmma.h"

namespace weft::inline WEFT_TARGET {
namespace {

using gemm::WgmmaTile;

// Where in out a warp's sums belong.
struct WarpPlace {
    int64_t row, column;  // the first
    int rows, columns;    // that exist from there on, and are the tile's
};

// Calls `use` with whether all is there to be read in vectors, as a constant: without a branch at each of
// them, all loads are issued before the first is waited for.
template <class F>
__device__ __forceinline__ void with_whole(bool whole, F use) {
    whole ? use(std::true_type{}) : use(std::false_type{});
}

// Multiplies half of the sums and adds a bias. `column`: of the half's first; `left`: that exist from it on.
template <int kCount>
__device__ __forceinline__ void scale_half(float (&sums)[kCount], int first, float scale, const Bias& bias,
                                           int64_t column, int left) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) sums[first + i] *= scale;
    if (bias.data == nullptr) return;
    kit::with_wide_type(bias.dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const int pair = kit::accumulator_column(0);
        const T* from = static_cast<const T*>(bias.data) + column + pair;
        with_whole(bias.vectors && left >= kCount, [&](auto whole) {
            kit::Vec<T, 2> twos[kCount / 8];
#pragma unroll
            for (int j = 0; j < kCount / 8; ++j) {
                twos[j] = whole ? kit::load_aligned<2>(from + 8 * j)
                                : kit::load_vector<2>(from + 8 * j, left - pair - 8 * j, bias.vectors);
            }
#pragma unroll
            for (int i = 0; i < kCount / 2; ++i) sums[first + i] += kit::to_float(twos[i / 4][i % 2]);
        });
    });
}

template <int kCount>
__device__ __forceinline__ void activate_sums(float (&sums)[kCount], const Epilogue& e) {
    with_activation(e, [&](auto activate) {
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) sums[i] = activate(sums[i]);
        if (e.gated) return;
#pragma unroll
        for (int i = kCount / 2; i < kCount; ++i) sums[i] = activate(sums[i]);
    });
}

// Adds the residual to half of the sums. A row that is not there is read as the last that is; nobody stores
// it.
template <int kCount>
__device__ __forceinline__ void add_residual(float (&sums)[kCount], int first, const Epilogue& e,
                                             const WarpPlace& at) {
    if (at.rows <= 0) return;
    kit::with_wide_type(e.residual_dtype, [&](auto* type) {
        using T = std::remove_pointer_t<decltype(type)>;
        const int pair = kit::accumulator_column(0), left = at.columns - 2 * first;
        const T* from =
            static_cast<const T*>(e.residual) + at.row * e.residual_stride + at.column + 2 * first + pair;
        with_whole(e.residual_vectors && left >= kCount, [&](auto whole) {
            kit::Vec<T, 2> twos[kCount / 4];
#pragma unroll
            for (int i = 0; i < kCount / 4; ++i) {
                const int row = min(kit::accumulator_row(2 * (i % 2)), at.rows - 1), column = i / 2 * 8;
                const T* two = from + row * e.residual_stride + column;
                twos[i] = whole ? kit::load_aligned<2>(two)
                                : kit::load_vector<2>(two, left - pair - column, e.residual_vectors);
            }
#pragma unroll
            for (int i = 0; i < kCount / 2; ++i) sums[first + i] += kit::to_float(twos[i / 2][i % 2]);
        });
    });
}

// The columns of out that exist, by pieces of 128 bytes a row through the warp's shared memory, so that whole
// 16-byte chunks of rows are stored. Where pieces take turns in two places, one __syncwarp each is enough.
template <class T, int kPlaces, int kCount>
__device__ __forceinline__ void store_sums(const float (&sums)[kCount], const Epilogue& e,
                                           const WarpPlace& at, bool chunks, char* staged) {
    constexpr int kColumns = WgmmaTile::kRowBytes / sizeof(T), kOfChunk = 16 / sizeof(T);
#pragma unroll
    for (int piece = 0; piece * kColumns < 2 * kCount; ++piece) {
        if (piece * kColumns >= at.columns) continue;  // also what a gated tile does not have
        char* place = staged + piece % kPlaces * WgmmaTile::kPieceBytes;
#pragma unroll
        for (int i = 0; i < kColumns / 2 && piece * kColumns / 2 + i < kCount; i += 2) {
            const int from = piece * kColumns / 2 + i, column = i / 4 * 8 + kit::accumulator_column(0);
            const float two[2] = {sums[from], sums[from + 1]};
            char* row = place + kit::panel_offset(kit::accumulator_row(i % 4), column / kOfChunk);
            kit::store_aligned(reinterpret_cast<T*>(row) + column % kOfChunk, kit::from_floats<T>(two));
        }
        __syncwarp();
        const int chunk = kit::lane_index() % kit::kPanelChunks, column = piece * kColumns + chunk * kOfChunk;
        kit::Vec<T, kOfChunk> values[4];
        const int first = kit::lane_index() / kit::kPanelChunks;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const char* from = place + kit::panel_offset(first + 4 * i, chunk);
            values[i] = kit::load_aligned<kOfChunk>(reinterpret_cast<const T*>(from));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = first + 4 * i;
            if (row >= at.rows) continue;
            T* to = static_cast<T*>(e.out) + (at.row + row) * e.out_stride + at.column + column;
            kit::store_vector(to, values[i], at.columns - column, chunks);
        }
        if (kPlaces == 1) __syncwarp();
    }
    __syncwarp();  // the next tile begins with the first place again
}

// Everything between the products and memory. Each step is one pass over the registers, so that its choices
// are made once a tile. `chunks`: out's rows begin at multiples of 16 bytes.
template <WgmmaTile kTile, int kCount>
__device__ __forceinline__ void finish_sums(float (&sums)[kCount], const Epilogue& e, const Scales& s,
                                            const WarpPlace& at, int columns_left, bool chunks,
                                            char* staged) {
    constexpr int kHalf = kCount / 2;
    const int second = e.gated ? 0 : kCount;  // the column of the second half
    scale_half(sums, 0, s.product, e.bias, at.column, columns_left);
    scale_half(sums, kHalf, e.gated ? s.up : s.product, e.gated ? e.up_bias : e.bias, at.column + second,
               columns_left - second);
    activate_sums(sums, e);
    if (e.gated) {
#pragma unroll
        for (int i = 0; i < kHalf; ++i) sums[i] *= sums[kHalf + i];
    }
    if (e.residual != nullptr) {
        add_residual(sums, 0, e, at);
        if (!e.gated) add_residual(sums, kHalf, e, at);
    }
    if (e.out_scale != nullptr) {
#pragma unroll
        for (float& sum : sums) sum *= s.inverse_out;
    }
    kit::with_type(e.out_dtype, [&](auto* type) {
        store_sums<std::remove_pointer_t<decltype(type)>, kTile.pieces()>(sums, e, at, chunks, staged);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
