// Attention on tensor cores, the queries of a block split among the warps.
//
// Idea        Each of four warps has 16 queries of its own and goes over all keys: nothing is merged, and a key that is
//             brought serves 64 queries. Keys, values and queries have memory of their own, and while a product runs the
//             next tile is under way.
// Change      What is split; two tiles under way in turn.
// Prediction  Well above 04, whose warps bring four times as much for a query.
#include "ladder/flash_attention/split_q.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

template <int kHead>
struct Shared {
    HalfTile<kKeys, kHead, Banks::padded> q, k, v;
};

template <int kHead>
__global__ void __launch_bounds__(kFlashThreads) attend(Calls c) {
    auto& shared = *kit::dynamic_shared<Shared<kHead>>();
    const Head head(c, kFlashRows);
    const std::int64_t row = flash_row(head), tiles = tiles_of(c, head, kFlashRows);
    const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
    Rows<kHead> rows;
    rows.clear();
    bring_queries(shared.q, c, head);
    if (tiles > 0) bring_keys(shared.k, head.k, c, head, 0);
    kit::cp_async_commit();
    for (std::int64_t tile = 0; tile < tiles; ++tile) {
        bring_keys(shared.v, head.v, c, head, tile * kKeys);
        kit::cp_async_commit();
        kit::cp_async_wait<1>();  // the keys are there; the values come while they are multiplied
        __syncthreads();
        Scores<kKeys> scores = {};
        Weights<kKeys> weights;
#pragma unroll
        for (int k = 0; k < kHead; k += 16) {
            std::uint32_t q[4];
            fragment_a(q, shared.q, warp_row, k);
            score_step<kKeys>(scores, q, shared.k, 0, k);
        }
        hide<kKeys>(scores, c, row, tile * kKeys);
        __syncthreads();  // nobody reads the keys any more
        if (tile + 1 < tiles) bring_keys(shared.k, head.k, c, head, (tile + 1) * kKeys);
        kit::cp_async_commit();
        weigh<kKeys>(weights, scores, rows, c.scale);
        kit::cp_async_wait<1>();
        __syncthreads();
        add_tile(rows, weights, shared.v);
        __syncthreads();  // nor the values
    }
    kit::cp_async_wait<0>();
    complete_sums(rows);
    store_rows(rows, c, head, row);
}

const RegisterRung<Attention> kRung{
    +[](const Attention& op, const DeviceInfo&) { return decline_attention(op, 128); },
    +[](const Attention& op, Context& context) {
        const auto launch = [&]<int kHead>() {
            launch_attention(kRung.name(), attend<kHead>, kFlashRows, kFlashThreads, op, context,
                             sizeof(Shared<kHead>));
        };
        op.q.dim(3) <= 64 ? launch.template operator()<64>() : launch.template operator()<128>();
    }};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
