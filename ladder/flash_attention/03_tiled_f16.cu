// Attention by tiles of keys in shared memory, on CUDA cores.
//
// Idea        32 queries of a block share tiles of 32 keys and values. Four lanes have a query: eight keys' scores each,
//             then a quarter of its output each; the maximum and the sum go round these four. The output shrinks once a
//             tile, not once a key.
// Change      Tiles; scores without shuffles; weights through shared memory.
// Prediction  Many times 02: a key that is brought once serves 32 queries. Bound by shared memory, two loads for each
//             multiply-add.
#include "kit/ptx/shuffle.cuh"
#include "ladder/flash_attention/attend.h"
#include "ladder/half_tile.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

constexpr int kTile = 32, kThreads = 4 * kTile, kMostHead = 128, kQuarter = kMostHead / 4;

struct Shared {
    HalfTile<kTile, kMostHead, Banks::padded> q, k, v;
    float weights[kTile][kTile + 1];
};

__global__ void attend(Calls c) {
    Shared& shared = kit::block_shared<Shared>();
    const Head head(c, kTile);
    const int row = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
    const std::int64_t query = head.first + row, keys = keys_of(c, query);
    const std::int64_t most = keys_of(c, min(head.first + kTile, c.q_tokens) - 1);
    const auto bring = [&](auto& tile, const __half* from, std::int64_t tokens, std::int64_t stride,
                           std::int64_t first) {
        bring_tile<kThreads>(tile, from, tokens, c.head_dim, stride, first, 0, c.whole);
    };
    float out[kQuarter] = {}, top = minus_infinity(), sum = 0.0f;
    bring(shared.q, head.q, c.q_tokens, head.q_stride, head.first);
    for (std::int64_t key = 0; key < most; key += kTile) {
        __syncthreads();  // nobody reads the tile before any more
        bring(shared.k, head.k, c.kv_tokens, head.kv_stride, key);
        bring(shared.v, head.v, c.kv_tokens, head.kv_stride, key);
        kit::cp_async_commit();
        kit::cp_async_wait<0>();
        __syncthreads();
        float x[kTile / 4], tile_top = top;
        for (int j = 0; j < kTile / 4; ++j) {
            x[j] = 0.0f;
            const __half *q = shared.q.chunk(row, 0), *k = shared.k.chunk(part + 4 * j, 0);
            for (int d = 0; d < c.head_dim; ++d) x[j] = fmaf(__half2float(q[d]), __half2float(k[d]), x[j]);
            if (key + part + 4 * j >= keys) x[j] = minus_infinity();
            tile_top = fmaxf(tile_top, x[j]);
        }
        for (int lane = 1; lane < 4; lane *= 2) tile_top = fmaxf(tile_top, kit::shuffle_xor(tile_top, lane));
        const float shrink = shrink_of(top, tile_top, c.scale);
        top = tile_top, sum *= shrink;
        for (int j = 0; j < kTile / 4; ++j)
            sum += shared.weights[row][part + 4 * j] = weight_of(x[j], top, c.scale);
        __syncwarp();  // a query's four lanes are of one warp
#pragma unroll
        for (int i = 0; i < kQuarter; ++i) {
            out[i] *= shrink;
            for (int j = 0; j < kTile; ++j)
                out[i] =
                    fmaf(shared.weights[row][j], __half2float(shared.v.chunk(j, 0)[part + 4 * i]), out[i]);
        }
    }
    for (int lane = 1; lane < 4; lane *= 2) sum += kit::shuffle_xor(sum, lane);
#pragma unroll
    for (int i = 0; i < kQuarter; ++i) {
        if (query < c.q_tokens && part + 4 * i < c.head_dim)
            head.out[query * head.q_stride + part + 4 * i] =
                __float2half_rn(sum == 0.0f ? 0.0f : out[i] / sum);
    }
    kit::cp_async_wait<0>();
}

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, kMostHead); },
    +[](const Attention& op, Context& context) {
        launch_attention(kRung.name(), attend, kTile, kThreads, op, context);
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
