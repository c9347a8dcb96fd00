// The PTX wrappers against plain loops over matrices and the documented definitions: their host models, and
// on a GPU (on_gpu.cu) the instructions.
#include "support.h"

#include <cmath>
#include <limits>
#include <random>

#include "kit/ptx/cp_async.cuh"
#include "kit/ptx/ldmatrix.cuh"
#include "kit/ptx/memory.cuh"
#include "kit/ptx/mma.cuh"
#include "kit/ptx/shuffle.cuh"
#include "kit/ptx/stmatrix.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

using test::Buffer;
using testing::ElementsAre;

// ---- shuffles and votes ----

struct Shuffled {
    int xor_3, xor_8_of_16, from_5, from_9_of_8, down_4, down_3_of_8, up_4, up_2_of_4;
    double wide;
    unsigned ballot;
    bool any, all;
};

__global__ void shuffle_all_ways(Shuffled* out) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    out[threadIdx.x] = {.xor_3 = kit::shuffle_xor(lane, 3),
                        .xor_8_of_16 = kit::shuffle_xor(lane, 8, 16),
                        .from_5 = kit::shuffle(lane, 5),
                        .from_9_of_8 = kit::shuffle(lane, 9, 8),
                        .down_4 = kit::shuffle_down(lane, 4),
                        .down_3_of_8 = kit::shuffle_down(lane, 3, 8),
                        .up_4 = kit::shuffle_up(lane, 4),
                        .up_2_of_4 = kit::shuffle_up(lane, 2, 4),
                        .wide = kit::shuffle_xor(lane + 0.5, 1),
                        .ballot = kit::ballot(lane % 5 == 0),
                        .any = kit::any(lane == 31),
                        .all = kit::all(lane < 31)};
}

ON_BOTH(80, ShufflesAndVotes) {
    test::in_several_orders([] {
        Buffer<Shuffled> out(64);
        kit::launch("shuffle_all_ways", shuffle_all_ways, {.grid = 1, .block = 64}, Stream{}, out.data());
        const auto got = out.values();
        for (int i = 0; i < 64; ++i) {
            const int lane = i % 32;
            const Shuffled& own = got[i];
            EXPECT_EQ(own.xor_3, lane ^ 3);
            EXPECT_EQ(own.xor_8_of_16, lane ^ 8);
            EXPECT_EQ(own.from_5, 5);
            EXPECT_EQ(own.from_9_of_8, lane / 8 * 8 + 1);
            EXPECT_EQ(own.down_4, lane + 4 < 32 ? lane + 4 : lane);
            EXPECT_EQ(own.down_3_of_8, lane % 8 + 3 < 8 ? lane + 3 : lane);
            EXPECT_EQ(own.up_4, lane >= 4 ? lane - 4 : lane);
            EXPECT_EQ(own.up_2_of_4, lane % 4 >= 2 ? lane - 2 : lane);
            EXPECT_EQ(own.wide, (lane ^ 1) + 0.5);
            EXPECT_EQ(own.ballot, 0b01000010000100001000010000100001u);
            EXPECT_TRUE(own.any);
            EXPECT_FALSE(own.all);
        }
    });
}

// ---- ldmatrix and stmatrix ----

struct Fragments {
    uint32_t x4[4], x4_trans[4], x2[2], x2_trans[2], x1_trans[1];
};

__global__ void load_matrices(Fragments* out) {
    uint16_t* shared = kit::dynamic_shared<uint16_t>();
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += 32) shared[i] = static_cast<uint16_t>(i);
    __syncwarp();
    Fragments own;
    // Row r of matrix m at 8 (8 m + r); the last 16 lanes of the x2 forms give no address.
    const uint16_t* row = shared + 8 * threadIdx.x;
    kit::ldmatrix_x4(own.x4, row);
    kit::ldmatrix_x4_trans(own.x4_trans, row);
    kit::ldmatrix_x2(own.x2, threadIdx.x < 16 ? row : nullptr);
    kit::ldmatrix_x2_trans(own.x2_trans, threadIdx.x < 16 ? row : nullptr);
    kit::ldmatrix_x1_trans(own.x1_trans, threadIdx.x < 8 ? row : nullptr);
    out[threadIdx.x] = own;
}

ON_BOTH(80, Ldmatrix) {
    Buffer<Fragments> out(32);
    kit::launch("load_matrices", load_matrices, {.grid = 1, .block = 32, .dynamic_shared = 512}, Stream{},
                out.data());
    const auto got = out.values();
    const auto pair = [](int m, int row, int column, int next_row, int next_column) {
        return static_cast<uint32_t>((64 * m + 8 * next_row + next_column) << 16 |
                                     (64 * m + 8 * row + column));
    };
    for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4 * 2;
        for (int m = 0; m < 4; ++m) {
            EXPECT_EQ(got[lane].x4[m], pair(m, g, t, g, t + 1));
            EXPECT_EQ(got[lane].x4_trans[m], pair(m, t, g, t + 1, g));
            if (m >= 2) continue;
            EXPECT_EQ(got[lane].x2[m], pair(m, g, t, g, t + 1));
            EXPECT_EQ(got[lane].x2_trans[m], pair(m, t, g, t + 1, g));
            if (m == 0) {
                EXPECT_EQ(got[lane].x1_trans[m], pair(m, t, g, t + 1, g));
            }
        }
    }
}

// Seven matrices as ldmatrix gives them, transposed, are stored in other places: by four, by two and alone.
__global__ void store_matrices(uint16_t* out) {
    uint16_t* shared = kit::dynamic_shared<uint16_t>();
    for (int i = static_cast<int>(threadIdx.x); i < 448; i += 32) shared[i] = static_cast<uint16_t>(i);
    __syncwarp();
    const auto row = [&](int first) { return shared + 8 * (8 * first + static_cast<int>(threadIdx.x)); };
    uint32_t four[4], two[2], one[1];
    kit::ldmatrix_x4_trans(four, row(0));
    kit::ldmatrix_x2_trans(two, threadIdx.x < 16 ? row(4) : nullptr);
    kit::ldmatrix_x1_trans(one, threadIdx.x < 8 ? row(6) : nullptr);
    __syncwarp();
    kit::stmatrix_trans<4>(row(3), four);
    kit::stmatrix_trans<2>(threadIdx.x < 16 ? row(1) : nullptr, two);
    kit::stmatrix_trans<1>(threadIdx.x < 8 ? row(0) : nullptr, one);
    __syncwarp();
    for (int i = static_cast<int>(threadIdx.x); i < 448; i += 32) out[i] = shared[i];
}

ON_BOTH(90, StmatrixUndoesLdmatrix) {
    Buffer<uint16_t> out(448);
    kit::launch("store_matrices", store_matrices, {.grid = 1, .block = 32, .dynamic_shared = 896}, Stream{},
                out.data());
    const auto got = out.values();
    const int from[] = {6, 4, 5, 0, 1, 2, 3};
    for (int i = 0; i < 448; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 64 * from[i / 64] + i % 64) << i;
}

// ---- mma.sync ----

// Fills the registers as the PTX manual lays the fragments out, element by element.
template <typename A, typename B, int K>
__global__ void multiply(const A* a, const B* b, const kit::Accumulator<A>* c, kit::Accumulator<A>* d) {
    constexpr int kWide = 4 / sizeof(A);
    const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
    uint32_t fragment_a[4], fragment_b[2];
    kit::Accumulator<A> fragment_c[4];
    A values_a[4 * kWide];
    for (int i = 0; i < 4 * kWide; ++i) {
        const int row = i / kWide % 2 == 0 ? g : g + 8;
        const int k = t * kWide + i % kWide + (i < 2 * kWide ? 0 : K / 2);
        values_a[i] = a[row * K + k];
    }
    B values_b[2 * kWide];
    for (int i = 0; i < 2 * kWide; ++i) {
        values_b[i] = b[(t * kWide + i % kWide + (i < kWide ? 0 : K / 2)) * 8 + g];
    }
    memcpy(fragment_a, static_cast<void*>(values_a), sizeof fragment_a);
    memcpy(fragment_b, static_cast<void*>(values_b), sizeof fragment_b);
    for (int i = 0; i < 4; ++i) fragment_c[i] = c[(i < 2 ? g : g + 8) * 8 + 2 * t + i % 2];
    if constexpr (K == 16) {
        kit::mma_m16n8k16<A>(fragment_c, fragment_a, fragment_b);
    } else {
        kit::mma_m16n8k32<A, B>(fragment_c, fragment_a, fragment_b);
    }
    for (int i = 0; i < 4; ++i) d[(i < 2 ? g : g + 8) * 8 + 2 * t + i % 2] = fragment_c[i];
}

// Small integers make every sum exact, whatever its order; `scale` moves them into the subnormal values.
template <typename A, typename B, int K>
void check_multiply(float scale) {
    std::mt19937 random(K);
    std::uniform_int_distribution<int> small(-6, 6);
    std::vector<A> a(16 * K);
    std::vector<B> b(K * 8);
    std::vector<float> c(16 * 8);
    for (A& value : a) value = A(scale * static_cast<float>(small(random)));
    for (B& value : b) value = B(static_cast<float>(small(random)));
    for (float& value : c) value = scale * static_cast<float>(small(random));
    Buffer<A> a_there(a);
    Buffer<B> b_there(b);
    Buffer<float> c_there(c), d_there(16 * 8);
    kit::launch("multiply", multiply<A, B, K>, {.grid = 1, .block = 32}, Stream{}, a_there.data(),
                b_there.data(), c_there.data(), d_there.data());
    const auto d = d_there.values();
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) {
            float expected = c[row * 8 + column];
            for (int k = 0; k < K; ++k) {
                expected += static_cast<float>(a[row * K + k]) * static_cast<float>(b[k * 8 + column]);
            }
            ASSERT_EQ(d[row * 8 + column], expected) << row << "," << column;
        }
    }
}

ON_BOTH(89, MmaOfEveryType) {
    test::in_several_orders([] {
        check_multiply<kit::bf16, kit::bf16, 16>(1.0f);
        check_multiply<kit::bf16, kit::bf16, 16>(0x1p-126f);
        check_multiply<kit::half, kit::half, 16>(1.0f);
        check_multiply<kit::half, kit::half, 16>(0x1p-24f);
        check_multiply<kit::e4m3, kit::e4m3, 32>(1.0f);
        check_multiply<kit::e4m3, kit::e4m3, 32>(0x1p-9f);
        check_multiply<kit::e4m3, kit::e5m2, 32>(1.0f);
        check_multiply<kit::e5m2, kit::e4m3, 32>(1.0f);
        check_multiply<kit::e5m2, kit::e5m2, 32>(0x1p-16f);
    });
}

// Sums that fp32 does not hold.
ON_BOTH(80, MmaOfInt8SumsWholeNumbers) {
    std::mt19937 random(7);
    std::uniform_int_distribution<int> any(-128, 127);
    std::vector<std::int8_t> a(16 * 32), b(32 * 8);
    std::vector<std::int32_t> c(16 * 8, 1 << 28);
    for (std::int8_t& value : a) value = static_cast<std::int8_t>(any(random));
    for (std::int8_t& value : b) value = static_cast<std::int8_t>(any(random));
    for (int i = 0; i < 32; ++i) a[static_cast<size_t>(i)] = b[static_cast<size_t>(i * 8)] = -128;
    Buffer<std::int8_t> a_there(a), b_there(b);
    Buffer<std::int32_t> c_there(c), d_there(16 * 8);
    kit::launch("multiply", multiply<std::int8_t, std::int8_t, 32>, {.grid = 1, .block = 32}, Stream{},
                a_there.data(), b_there.data(), c_there.data(), d_there.data());
    const auto d = d_there.values();
    EXPECT_EQ(d[0], (1 << 28) + (32 << 14));
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) {
            std::int32_t expected = 1 << 28;
            for (int k = 0; k < 32; ++k)
                expected += a[static_cast<size_t>(row * 32 + k)] * b[static_cast<size_t>(k * 8 + column)];
            ASSERT_EQ(d[static_cast<size_t>(row * 8 + column)], expected) << row << "," << column;
        }
    }
}

#if !defined(__CUDACC__)

TEST_F(Emulator, WideningAgreesWithCudaForEveryValue) {
    const auto same = [](float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b; };
    for (uint32_t bits = 0; bits < 65536; ++bits) {
        const __half_raw raw{static_cast<unsigned short>(bits)};
        ASSERT_TRUE(same(kit::detail::widen<kit::half>(bits, 0), __half2float(__half(raw)))) << bits;
        const __nv_bfloat16_raw bf16_raw{static_cast<unsigned short>(bits)};
        ASSERT_TRUE(
            same(kit::detail::widen<kit::bf16>(bits << 16, 1), __bfloat162float(__nv_bfloat16(bf16_raw))))
            << bits;
    }
    for (uint32_t bits = 0; bits < 256; ++bits) {
        kit::e4m3 four;
        kit::e5m2 five;
        four.__x = five.__x = static_cast<__nv_fp8_storage_t>(bits);
        ASSERT_TRUE(same(kit::detail::widen<kit::e4m3>(bits << 16, 2), static_cast<float>(four))) << bits;
        ASSERT_TRUE(same(kit::detail::widen<kit::e5m2>(bits << 24, 3), static_cast<float>(five))) << bits;
        ASSERT_EQ(kit::detail::widen<std::int8_t>(bits << 8, 1), static_cast<std::int8_t>(bits)) << bits;
    }
}

#endif

// ---- cp.async ----

// Copies three groups, the last half valid, and looks after each wait at what has landed.
__global__ void copy_groups(const int4* in, int* landed, int4* out) {
    int4* buffer = kit::dynamic_shared<int4>();
    for (int group = 0; group < 3; ++group) {
        kit::cp_async_16(buffer + group, in + group, group < 2);
        kit::cp_async_commit();
    }
    kit::cp_async_wait<2>();
    landed[0] = buffer[0].x;
    kit::cp_async_wait<1>();
    landed[1] = buffer[1].y;
    kit::cp_async_wait<0>();
    landed[2] = buffer[2].z;
    kit::cp_async<4>(buffer + 3, in + 1);
    kit::cp_async<8>(&buffer[3].z, &in[1].z);
    kit::cp_async_commit();
    kit::cp_async_commit();  // an empty group counts as well
    kit::cp_async_wait<1>();
    landed[3] = buffer[3].x;
    kit::cp_async_wait<0>();
    for (int i = 0; i < 3; ++i) out[i] = buffer[i];
    landed[4] = buffer[3].z;
}

ON_BOTH(80, CopiesLandGroupByGroup) {
    Buffer<int4> in({{1, 2, 3, 4}, {5, 6, 7, 8}});  // the third is not there, and not read
    Buffer<int> landed(5);
    Buffer<int4> out(3);
    kit::launch("copy_groups", copy_groups, {.grid = 1, .block = 1, .dynamic_shared = 64}, Stream{},
                in.data(), landed.data(), out.data());
    EXPECT_THAT(landed.values(), ElementsAre(1, 6, 0, 5, 7));
    EXPECT_EQ(out.values()[1].w, 8);
    EXPECT_EQ(out.values()[2].w, 0);
}

// ---- memory and intrinsics ----

__global__ void move(const uint4* in, uint4* out) {
    kit::store(&out[0], kit::load(&in[0]));
    kit::store_streaming(&out[1], kit::load_streaming(&in[1]));
    kit::store(&out[2].x, kit::load_readonly(&in[2].x));
    kit::store(reinterpret_cast<uint2*>(&out[2].z),
               kit::load_readonly(reinterpret_cast<const uint2*>(&in[2].z)));
}

ON_BOTH(80, LoadsAndStores) {
    Buffer<uint4> in({{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}});
    Buffer<uint4> out(3);
    kit::launch("move", move, {.grid = 1, .block = 1}, Stream{}, in.data(), out.data());
    EXPECT_EQ(out.values()[0].w, 4u);
    EXPECT_EQ(out.values()[1].x, 5u);
    EXPECT_EQ(out.values()[2].x, 9u);
    EXPECT_EQ(out.values()[2].y, 0u);
    EXPECT_EQ(out.values()[2].w, 12u);
}

#if !defined(__CUDACC__)

TEST_F(Emulator, Intrinsics) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(__float2int_rn(2.5f), 2);
    EXPECT_EQ(__float2int_rn(-3.5f), -4);
    EXPECT_EQ(__float2int_rn(3e9f), std::numeric_limits<int>::max());
    EXPECT_EQ(__float2int_rz(-3e9f), std::numeric_limits<int>::min());
    EXPECT_EQ(__float2int_rn(kNan), 0);
    EXPECT_EQ(__float2int_rd(-1.5f), -2);
    EXPECT_EQ(__float2int_ru(1.25f), 2);
    EXPECT_EQ(__float2uint_rn(-1.0f), 0u);
    EXPECT_EQ(__float2uint_rn(5e9f), ~0u);
    EXPECT_EQ(__float2uint_rz(4294967040.0f), 4294967040u);
    EXPECT_EQ(max(kNan, 1.0f), 1.0f);
    EXPECT_EQ(min(2, 3u), 2u);
    EXPECT_EQ(max(-1, 3), 3);
    EXPECT_EQ(__byte_perm(0x33221100u, 0x77665544u, 0x7531), 0x77553311u);
    EXPECT_EQ(__byte_perm(0x80000000u, 0, 0x00bb), 0x0000ffffu);
    EXPECT_EQ(__brev(1u), 0x80000000u);
    EXPECT_EQ(__ffs(0), 0);
    EXPECT_EQ(__ffs(8), 4);
    EXPECT_EQ(__clz(1), 31);
    EXPECT_EQ(__popc(0xf0f0u), 8);
    EXPECT_EQ(__saturatef(kNan), 0.0f);
    EXPECT_EQ(rsqrtf(4.0f), 0.5f);
}

#endif

}  // namespace
}  // namespace weft::inline WEFT_TARGET
