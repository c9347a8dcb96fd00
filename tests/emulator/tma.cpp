// mbarriers and bulk copies against plain loops: their host models, and on a GPU (on_gpu.cu) the
// instructions.
#include "support.h"

#include "kit/ptx/cluster.cuh"
#include "kit/ptx/proxy_fence.cuh"
#include "kit/ptx/store_async.cuh"
#include "kit/ptx/tma.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using kit::Swizzle;
using kit::TensorLayout;
using kit::TensorMap;
using test::Buffer;

struct Barriers {
    kit::Mbarrier at[4];
};

// ---- mbarriers ----

// A relay: warp w adds its number once warp w - 1 has, for several rounds; one barrier a warp, used in all
// phases.
__global__ void relay(int* out, int rounds) {
    Barriers& turn = kit::block_shared<Barriers>();
    int* sum = kit::dynamic_shared<int>();
    const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < warps; ++i) kit::mbarrier_init(&turn.at[i], 32);
        *sum = 1;
    }
    __syncthreads();
    for (int round = 0; round < rounds; ++round) {
        // Warp 0 waits for the last warp's arrival of the round before.
        if (warp > 0 || round > 0) {
            const unsigned parity = static_cast<unsigned>(warp > 0 ? round : round - 1) & 1;
            kit::mbarrier_wait(&turn.at[(warp + warps - 1) % warps], parity);
        }
        if (threadIdx.x % 32 == 5) *sum = *sum * 3 + static_cast<int>(warp);
        __syncwarp();
        kit::mbarrier_arrive(&turn.at[warp]);
    }
    if (warp != 0) return;
    kit::mbarrier_wait(&turn.at[warps - 1], static_cast<unsigned>(rounds - 1) & 1);
    if (threadIdx.x == 0) *out = *sum;
}

ON_BOTH(90, MbarriersHandOver) {
    test::in_several_orders([] {
        Buffer<int> out(1);
        kit::launch("relay", relay, {.grid = 1, .block = 96, .dynamic_shared = 16}, Stream{}, out.data(), 5);
        int expected = 1;
        for (int i = 0; i < 15; ++i) expected = expected * 3 + i % 3;
        EXPECT_EQ(out.value(), expected);
    });
}

__global__ void arrive_in_cluster(unsigned* out) {
    Barriers& barriers = kit::block_shared<Barriers>();
    const unsigned rank = kit::cluster_rank();
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&barriers.at[0], kit::cluster_size());
        kit::fence_mbarrier_init();
    }
    kit::cluster_sync();
    if (threadIdx.x < kit::cluster_size()) {
        out[rank * kit::cluster_size() + threadIdx.x] = 100 * rank + threadIdx.x;
        kit::mbarrier_arrive_remote(&barriers.at[0], threadIdx.x);
    }
    kit::mbarrier_wait<true>(&barriers.at[0], 0);
    kit::cluster_sync();
}

ON_BOTH(90, MbarriersOfAClusterMeet) {
    test::in_several_orders([] {
        Buffer<unsigned> out(9);
        kit::launch("arrive_in_cluster", arrive_in_cluster, {.grid = 3, .block = 32, .cluster = 3}, Stream{},
                    out.data());
        EXPECT_THAT(out.values(), testing::ElementsAre(0, 1, 2, 100, 101, 102, 200, 201, 202));
    });
}

// ---- stores that complete at another block's mbarrier ----

struct Handed {
    float4 values[2][64];
};

// Each block says when it has room, and takes over in two phases what the one before it in the ring of blocks hands over.
__global__ void hand_round(float4* out) {
    Barriers& barriers = kit::block_shared<Barriers>();
    Handed& handed = kit::block_shared<Handed>();
    kit::Mbarrier *landed = &barriers.at[0], *may_store = &barriers.at[1];
    const unsigned rank = kit::cluster_rank(), size = kit::cluster_size(), thread = threadIdx.x;
    if (thread == 0) {
        kit::mbarrier_init(landed, 1);
        kit::mbarrier_init(may_store, 1);
        kit::fence_mbarrier_init();
    }
    __syncthreads();
    kit::cluster_arrive();
    kit::cluster_wait();
    for (unsigned round = 0; round < 2; ++round) {
        if (thread == 0) {
            kit::mbarrier_arrive_expect(landed, sizeof handed.values[0]);
            kit::mbarrier_arrive_remote<false>(may_store, (rank + size - 1) % size);
        }
        kit::mbarrier_wait(may_store, round);
        const float base = static_cast<float>(1000 * rank + 100 * round + thread);
        kit::store_async(&handed.values[round][thread], {base, base + 0.25f, base + 0.5f, -base}, landed,
                         (rank + 1) % size);
        kit::mbarrier_wait<true>(landed, round);
        out[(rank * 2 + round) * 64 + thread] = handed.values[round][(thread + 33) % 64];
        __syncthreads();  // nobody waits for a phase two behind
    }
}

ON_BOTH(90, StoresCompleteAtTheNextBlocksBarrier) {
    test::in_several_orders([] {
        Buffer<float4> out(3 * 2 * 64);
        kit::launch("hand_round", hand_round, {.grid = 3, .block = 64, .cluster = 3}, Stream{}, out.data());
        const auto got = out.values();
        for (unsigned i = 0; i < 3 * 2 * 64; ++i) {
            const unsigned from = (i / 128 + 2) % 3, round = i / 64 % 2, thread = (i % 64 + 33) % 64;
            const float base = static_cast<float>(1000 * from + 100 * round + thread);
            ASSERT_EQ(got[i].x, base) << i;
            ASSERT_EQ(got[i].y, base + 0.25f) << i;
            ASSERT_EQ(got[i].z, base + 0.5f) << i;
            ASSERT_EQ(got[i].w, -base) << i;
        }
    });
}

// ---- boxes ----

struct Place {
    int at[5];
};

// Loads a box and writes all of its bytes out as they lie in shared memory.
template <int Axes>
__global__ void load_box(const __grid_constant__ TensorMap map, Place place, int bytes, uint8_t* out) {
    Barriers& barriers = kit::block_shared<Barriers>();
    char* box = kit::align_shared<1024>(kit::dynamic_shared<char>());
    if (threadIdx.x == 0) {
        kit::tma_prefetch(map);
        kit::mbarrier_init(&barriers.at[0], 1);
        kit::fence_mbarrier_init();
        int at[Axes];
        for (int axis = 0; axis < Axes; ++axis) at[axis] = place.at[axis];
        kit::mbarrier_arrive_expect(&barriers.at[0], static_cast<unsigned>(bytes));
        kit::tma_load(box, map, &barriers.at[0], at);
    }
    __syncthreads();
    kit::mbarrier_wait(&barriers.at[0], 0);
    for (int i = static_cast<int>(threadIdx.x); i < bytes; i += 64) out[i] = static_cast<uint8_t>(box[i]);
}

// The other way: the box's bytes as they lie in shared memory.
template <int Axes>
__global__ void store_box(const __grid_constant__ TensorMap map, Place place, int bytes, const uint8_t* in) {
    char* box = kit::align_shared<1024>(kit::dynamic_shared<char>());
    for (int i = static_cast<int>(threadIdx.x); i < bytes; i += 64) box[i] = static_cast<char>(in[i]);
    kit::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x > 0) return;
    int at[Axes];
    for (int axis = 0; axis < Axes; ++axis) at[axis] = place.at[axis];
    kit::tma_store(map, box, at);
    kit::bulk_commit();
    kit::bulk_wait_sources<0>();
    kit::bulk_wait<0>();
}

// Where the manual's pictures put chunk `chunk` of row `row` of a box whose rows are as wide as the swizzle.
int pictured(Swizzle swizzle, int row, int chunk, int inner) {
    switch (swizzle) {
        case Swizzle::none: return row * inner + chunk * 16;
        case Swizzle::bytes32: return row * 32 + (chunk ^ row / 4 % 2) * 16;
        case Swizzle::bytes64: return row * 64 + (chunk ^ row / 2 % 4) * 16;
        case Swizzle::bytes128: return row * 128 + (chunk ^ row % 8) * 16;
    }
    return -1;
}

// A tensor whose bytes are all different from their neighbours', with padded rows.
struct Tensor5 {
    TensorLayout layout;
    std::vector<uint8_t> bytes;

    Tensor5(int axes, int element_bytes, std::vector<uint64_t> size, std::vector<uint32_t> box,
            Swizzle swizzle) {
        layout.axes = axes;
        layout.element_bytes = element_bytes;
        layout.swizzle = swizzle;
        uint64_t stride = static_cast<uint64_t>(element_bytes);
        for (int axis = 0; axis < axes; ++axis) {
            layout.size[axis] = size[static_cast<size_t>(axis)];
            layout.box[axis] = box[static_cast<size_t>(axis)];
            layout.stride[axis] = stride;
            stride = (stride * layout.size[axis] + 31) / 16 * 16;
        }
        bytes.resize(stride);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 251 + 1);
    }

    // For each byte of the box, in order of its coordinates: where it is in global memory (-1: outside) and
    // in shared memory.
    void for_each(const Place& place, const std::function<void(int64_t, int)>& visit) const {
        const int e = layout.element_bytes, inner = static_cast<int>(layout.box[0]) * e;
        uint32_t index[5] = {};
        for (int row = 0;; ++row) {
            for (int byte = 0; byte < inner; ++byte) {
                int64_t offset = byte % e;
                bool inside = true;
                for (int axis = 0; axis < layout.axes; ++axis) {
                    const int64_t i = place.at[axis] + (axis == 0 ? byte / e : static_cast<int>(index[axis]));
                    inside = inside && i >= 0 && i < static_cast<int64_t>(layout.size[axis]);
                    offset += i * static_cast<int64_t>(layout.stride[axis]);
                }
                visit(inside ? offset : -1, pictured(layout.swizzle, row, byte / 16, inner) + byte % 16);
            }
            int axis = 1;
            while (axis < layout.axes && ++index[axis] == layout.box[axis]) index[axis++] = 0;
            if (axis == layout.axes) return;
        }
    }
};

template <int Axes>
void check_box(Tensor5 tensor, Place place) {
    const int bytes = static_cast<int>(tensor.layout.box_bytes());
    Buffer<uint8_t> there(tensor.bytes), loaded(static_cast<size_t>(bytes));
    tensor.layout.data = there.data();
    const TensorMap map = kit::tensor_map("test", tensor.layout);
    const kit::LaunchShape shape{.grid = 1, .block = 64, .dynamic_shared = static_cast<size_t>(bytes) + 1024};
    kit::launch("load_box", load_box<Axes>, shape, Stream{}, map, place, bytes, loaded.data());
    const auto got = loaded.values();
    tensor.for_each(place, [&](int64_t global, int shared) {
        const uint8_t expected = global < 0 ? 0 : tensor.bytes[static_cast<size_t>(global)];
        ASSERT_EQ(got[static_cast<size_t>(shared)], expected) << "shared byte " << shared;
    });

    // Stored again, upside down, over the same tensor: what is outside stays as it was. Not before the tensor's
    // begin, nor over a last chunk that is not whole: the engine can't.
    if (place.at[0] < 0 ||
        tensor.layout.size[0] * static_cast<uint64_t>(tensor.layout.element_bytes) % 16 != 0)
        return;
    std::vector<uint8_t> image(static_cast<size_t>(bytes)), expected = tensor.bytes;
    for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(~i * 13);
    tensor.for_each(place, [&](int64_t global, int shared) {
        if (global >= 0) expected[static_cast<size_t>(global)] = image[static_cast<size_t>(shared)];
    });
    Buffer<uint8_t> source(image);
    kit::launch("store_box", store_box<Axes>, shape, Stream{}, map, place, bytes, source.data());
    EXPECT_EQ(there.values(), expected);
}

ON_BOTH(90, BoxesOfTwoAxesInEverySwizzle) {
    test::in_several_orders([] {
        check_box<2>({2, 2, {72, 50}, {64, 24}, Swizzle::bytes128}, {{0, 8}});
        check_box<2>({2, 2, {72, 50}, {64, 24}, Swizzle::bytes128}, {{32, 40}});  // over both ends
        check_box<2>({2, 2, {70, 50}, {64, 24}, Swizzle::bytes128}, {{32, 40}});  // within a chunk
        check_box<2>({2, 2, {70, 50}, {64, 24}, Swizzle::bytes128}, {{-8, -2}});
        check_box<2>({2, 2, {72, 50}, {32, 24}, Swizzle::bytes64}, {{40, 30}});
        check_box<2>({2, 2, {72, 50}, {16, 24}, Swizzle::bytes32}, {{64, 1}});
        check_box<2>({2, 2, {72, 50}, {40, 7}, Swizzle::none}, {{32, 45}});
        check_box<2>({2, 1, {304, 9}, {128, 8}, Swizzle::bytes128}, {{256, 3}});
        check_box<2>({2, 4, {20, 9}, {32, 8}, Swizzle::bytes128}, {{4, 3}});
        check_box<2>({2, 2, {72, 50}, {64, 24}, Swizzle::bytes128}, {{104, 60}});  // nothing of it inside
    });
}

ON_BOTH(90, BoxesOfMoreAxes) {
    test::in_several_orders([] {
        check_box<3>({3, 2, {72, 5, 6}, {64, 3, 2}, Swizzle::bytes128}, {{8, 3, 5}});
        check_box<4>({4, 2, {64, 9, 3, 2}, {64, 8, 1, 1}, Swizzle::bytes128}, {{0, 4, 2, 1}});
        check_box<4>({4, 1, {40, 3, 3, 3}, {32, 2, 2, 2}, Swizzle::bytes32}, {{16, 2, -1, 1}});
        check_box<5>({5, 2, {24, 3, 2, 3, 2}, {16, 2, 2, 2, 2}, Swizzle::bytes32}, {{8, 1, 0, 2, 1}});
    });
}

// ---- multicast ----

// Each block loads its half of the rows for both.
__global__ void load_halves(const __grid_constant__ TensorMap map, uint32_t* out) {
    Barriers& barriers = kit::block_shared<Barriers>();
    char* box = kit::align_shared<1024>(kit::dynamic_shared<char>());
    const int rank = static_cast<int>(kit::cluster_rank());
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&barriers.at[1], 1);
        kit::fence_mbarrier_init();
        kit::mbarrier_arrive_expect(&barriers.at[1], 2 * 8 * 128);
    }
    kit::cluster_sync();
    if (threadIdx.x == 0) {
        kit::tma_load_multicast(box + rank * 8 * 128, map, &barriers.at[1], {0, rank * 8}, 0b11);
    }
    kit::mbarrier_wait(&barriers.at[1], 0);
    for (int i = static_cast<int>(threadIdx.x); i < 512; i += 32) {
        const int row = i / 32, word = i % 32;
        const auto place = kit::swizzled(Swizzle::bytes128, static_cast<unsigned>(row * 128 + word * 4));
        out[static_cast<int>(blockIdx.x) * 512 + i] = *reinterpret_cast<const uint32_t*>(box + place);
    }
    kit::cluster_sync();
}

ON_BOTH(90, MulticastReachesBothBlocks) {
    test::in_several_orders([] {
        std::vector<uint32_t> values(512);
        for (uint32_t i = 0; i < 512; ++i) values[i] = i * 7 + 1;
        Buffer<uint32_t> in(values), out(1024);
        TensorLayout layout;
        layout.data = in.data();
        layout.element_bytes = 4;
        layout.axes = 2;
        layout.size[0] = 32, layout.size[1] = 16;
        layout.stride[0] = 4, layout.stride[1] = 128;
        layout.box[0] = 32, layout.box[1] = 8;
        layout.swizzle = Swizzle::bytes128;
        kit::launch("load_halves", load_halves,
                    {.grid = 2, .block = 32, .cluster = 2, .dynamic_shared = 2048 + 1024}, Stream{},
                    kit::tensor_map("test", layout), out.data());
        const auto got = out.values();
        for (size_t i = 0; i < 1024; ++i) ASSERT_EQ(got[i], values[i % 512]) << i;
    });
}

// ---- runs of bytes ----

// Brings `bytes` through a ring of two slots and back out, doubled.
__global__ void double_through_ring(const int* in, int* out, int runs) {
    Barriers& full = kit::block_shared<Barriers>();
    char* ring = kit::align_shared<128>(kit::dynamic_shared<char>());
    constexpr unsigned kBytes = 256;
    if (threadIdx.x == 0) {
        kit::mbarrier_init(&full.at[0], 1);
        kit::mbarrier_init(&full.at[1], 1);
        kit::fence_mbarrier_init();
    }
    __syncthreads();
    for (int run = 0; run < runs; ++run) {
        const int slot = run % 2;
        int* values = reinterpret_cast<int*>(ring + slot * kBytes);
        if (threadIdx.x == 0) {
            kit::bulk_wait_sources<1>();  // the slot's last store
            kit::mbarrier_arrive_expect(&full.at[slot], kBytes);
            kit::bulk_load(values, in + run * 64, kBytes, &full.at[slot]);
        }
        kit::mbarrier_wait(&full.at[slot], static_cast<unsigned>(run / 2) & 1);
        values[threadIdx.x] *= 2;
        kit::fence_proxy_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            kit::bulk_store(out + run * 64, values, kBytes);
            kit::bulk_commit();
        }
    }
    if (threadIdx.x == 0) kit::bulk_wait_sources<0>();
}

ON_BOTH(90, RunsOfBytesThroughARing) {
    test::in_several_orders([] {
        std::vector<int> values(64 * 7);
        for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i) + 3;
        Buffer<int> in(values), out(values.size());
        kit::launch("double_through_ring", double_through_ring,
                    {.grid = 1, .block = 64, .dynamic_shared = 1024}, Stream{}, in.data(), out.data(), 7);
        for (int& value : values) value *= 2;
        EXPECT_EQ(out.values(), values);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
