// Attention on tensor cores, the keys of a tile split among the warps.
//
// Idea        Four warps have the same 16 queries, and 16 keys of each tile of 64 each, with a maximum, a sum and an
//             output of their own. In the end these are merged through shared memory, as if each warp had been a tile of
//             online softmax. Weights go from one product to the next in registers: where a lane has scores, A's
//             fragment wants weights.
// Change      mma.sync in place of the CUDA cores; the merge.
// Prediction  Many times 03. But a block of four warps has 16 queries only: a key that is brought serves 16.
#include "ladder/flash_attention/flash.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

template <int kHead>
struct Shared {
    HalfTile<16, kHead, Banks::padded> q;
    union {
        struct {
            HalfTile<kKeys, kHead, Banks::padded> k, v;
        } tile;
        Rows<kHead> rows[kFlashWarps - 1][32];  // of the other warps' lanes
    };
};

template <int kHead>
__device__ __forceinline__ void merge(Rows<kHead>& into, const Rows<kHead>& other, float scale) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const float top = fmaxf(into.top[h], other.top[h]);
        const float keep = shrink_of(into.top[h], top, scale), take = shrink_of(other.top[h], top, scale);
        into.top[h] = top, into.sum[h] = into.sum[h] * keep + other.sum[h] * take;
#pragma unroll
        for (int i = 0; i < kHead / 4; ++i) {
            float& out = into.out[i / 2][2 * h + i % 2];
            out = out * keep + other.out[i / 2][2 * h + i % 2] * take;
        }
    }
}

template <int kHead>
__global__ void __launch_bounds__(kFlashThreads) attend(Calls c) {
    auto& shared = *kit::dynamic_shared<Shared<kHead>>();
    const Head head(c, 16);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const std::int64_t row = head.first + lane_of_warp() / 4;
    bring_queries(shared.q, c, head);
    Rows<kHead> rows;
    rows.clear();
    for (std::int64_t tile = 0; tile < tiles_of(c, head, 16); ++tile) {
        bring_keys(shared.tile.k, head.k, c, head, tile * kKeys);
        bring_keys(shared.tile.v, head.v, c, head, tile * kKeys);
        kit::cp_async_commit();
        kit::cp_async_wait<0>();
        __syncthreads();
        Scores<16> scores = {};
        Weights<16> weights;
#pragma unroll
        for (int k = 0; k < kHead; k += 16) {
            std::uint32_t q[4];
            fragment_a(q, shared.q, 0, k);
            score_step<16>(scores, q, shared.tile.k, 16 * warp, k);
        }
        hide<16>(scores, c, row, tile * kKeys + 16 * warp);
        weigh<16>(weights, scores, rows, c.scale);
#pragma unroll
        for (int n = 0; n < kHead / 8; ++n)
            add_values<16>(rows.out[n], weights, shared.tile.v, 16 * warp, 8 * n);
        __syncthreads();
    }
    complete_sums(rows);
    if (warp > 0) shared.rows[warp - 1][lane_of_warp()] = rows;
    kit::cp_async_wait<0>();
    __syncthreads();
    if (warp > 0) return;
    for (int other = 0; other < kFlashWarps - 1; ++other)
        merge(rows, shared.rows[other][lane_of_warp()], c.scale);
    store_rows(rows, c, head, row);
}

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 128); },
    +[](const Attention& op, Context& context) {
        const auto launch = [&]<int kHead>() {
            launch_attention(kRung.name(), attend<kHead>, 16, kFlashThreads, op, context,
                             sizeof(Shared<kHead>));
        };
        op.q.dim(3) <= 64 ? launch.template operator()<64>() : launch.template operator()<128>();
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
