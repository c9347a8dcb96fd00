// wgmma against plain loops over matrices, for every layout in shared memory: the host model, and on a GPU
// (on_gpu.cu) the instructions.
#include "kit/ptx/wgmma.cuh"

#include <random>

#include "kit/ptx/proxy_fence.cuh"
#include "support.h"

namespace weft::inline WEFT_TARGET {
namespace {

using kit::Major;
using kit::Swizzle;
using test::Buffer;

// How a matrix of `extent` rows (of M or N) by `depth` lies in shared memory.
struct Layout {
    Major major;
    Swizzle swizzle;
    int extent, depth, element_bytes;

    int width() const { return static_cast<int>(swizzle); }
    int bytes() const {
        const int along = major == Major::k ? depth : extent, lines = major == Major::k ? extent : depth;
        return std::max(along * element_bytes, width()) * lines;
    }
    // Offsets for the descriptor. K-major: rows of `width` bytes, whole groups of eight one after another,
    // and where depth is more than a row, the next matrix of rows behind. MN-major: pieces of `width` bytes
    // along the extent, each with all its k.
    int stride() const {
        if (swizzle != Swizzle::none) return 8 * width();
        return major == Major::k ? 128 : depth / 8 * 128;
    }
    int leading() const {
        if (swizzle != Swizzle::none) return major == Major::k ? 16 : depth * width();
        return major == Major::k ? extent / 8 * 128 : 128;
    }
    // From one instruction's K to the next's.
    int step() const {
        if (major == Major::k) return swizzle == Swizzle::none ? 2 * leading() : 32;
        return 2 * (swizzle == Swizzle::none ? leading() : stride());
    }
    // The byte of element (row, k), as the manual's pictures have it.
    int place(int row, int k) const {
        const int line = major == Major::k ? row : k, byte = (major == Major::k ? k : row) * element_bytes;
        const int chunk = byte / 16;
        if (swizzle == Swizzle::none)
            return chunk * (major == Major::k ? leading() : stride()) +
                   line / 8 * (major == Major::k ? stride() : leading()) + line % 8 * 16 + byte % 16;
        const int piece = byte / width(), in_piece = chunk % (width() / 16);
        const int turn = swizzle == Swizzle::bytes128  ? line % 8
                         : swizzle == Swizzle::bytes64 ? line / 2 % 4
                                                       : line / 4 % 2;
        const int lines = major == Major::k ? extent : depth;
        return piece * lines * width() + line * width() + (in_piece ^ turn) * 16 + byte % 16;
    }
};

struct Operand {
    int bytes, stride, leading, step;
    Swizzle swizzle;
};

Operand operand_of(const Layout& layout) {
    return {layout.bytes(), layout.stride(), layout.leading(), layout.step(), layout.swizzle};
}

// C + A B in `steps` instructions; the images of A and B are copied into shared memory as they are.
template <class A, class B, int N, Major kA, Major kB, bool kRegisters>
__global__ void multiply_group(const uint4* a, const uint4* b, const uint32_t* fragments,
                               const kit::Accumulator<A>* c, kit::Accumulator<A>* d, Operand of_a,
                               Operand of_b, int steps) {
    char* shared_a = kit::align_shared<1024>(kit::dynamic_shared<char>());
    char* shared_b = shared_a + (of_a.bytes + 1023) / 1024 * 1024;
    for (int i = static_cast<int>(threadIdx.x); i < of_a.bytes / 16; i += 128)
        reinterpret_cast<uint4*>(shared_a)[i] = a[i];
    for (int i = static_cast<int>(threadIdx.x); i < of_b.bytes / 16; i += 128)
        reinterpret_cast<uint4*>(shared_b)[i] = b[i];
    kit::fence_proxy_async();
    __syncthreads();
    // The manual: row 16 (warp) + lane / 4 (+ 8), columns 8 j + 2 (lane mod 4) and the next.
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const auto place = [&](int i) {
        return (16 * warp + lane / 4 + (i & 2 ? 8 : 0)) * N + i / 4 * 8 + lane % 4 * 2 + (i & 1);
    };
    kit::Accumulator<A> sums[N / 2];
    for (int i = 0; i < N / 2; ++i) sums[i] = c[place(i)];
    const auto from_a = kit::matrix_descriptor(shared_a, of_a.swizzle, of_a.stride, of_a.leading);
    const auto from_b = kit::matrix_descriptor(shared_b, of_b.swizzle, of_b.stride, of_b.leading);
    kit::wgmma_hold(sums);
    kit::wgmma_fence();
    for (int step = 0; step < steps; ++step) {
        if constexpr (kRegisters) {
            uint32_t registers[4];
            for (int i = 0; i < 4; ++i)
                registers[i] = fragments[(step * 128 + static_cast<int>(threadIdx.x)) * 4 + i];
            kit::wgmma_fence();
            kit::wgmma<A, B, N, kB>(sums, registers, from_b.moved(step * of_b.step), true);
        } else {
            kit::wgmma<A, B, N, kA, kB>(sums, from_a.moved(step * of_a.step), from_b.moved(step * of_b.step),
                                        true);
        }
    }
    kit::wgmma_commit();
    kit::wgmma_wait<0>();
    kit::wgmma_hold(sums);
    for (int i = 0; i < N / 2; ++i) d[place(i)] = sums[i];
}

// Small ones, whose sums are exact in fp32; of int8 all that there are, and sums beyond what fp32 holds.
template <class T>
std::vector<T> integers(size_t count, unsigned seed) {
    constexpr bool kInt8 = std::is_same_v<T, std::int8_t>, kSum = std::is_same_v<T, std::int32_t>;
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> some(kSum    ? 1 << 28
                                            : kInt8 ? -128
                                                    : -6,
                                            kSum    ? 1 << 29
                                            : kInt8 ? 127
                                                    : 6);
    std::vector<T> values(count);
    for (T& value : values) {
        if constexpr (kInt8 || kSum) {
            value = static_cast<T>(some(random));
        } else {
            value = T(static_cast<float>(some(random)));
        }
    }
    return values;
}

// The matrix [row][k] in the layout.
template <class T>
std::vector<uint4> image_of(const Layout& layout, const std::vector<T>& matrix) {
    std::vector<uint4> image(static_cast<size_t>(layout.bytes() / 16));
    for (int row = 0; row < layout.extent; ++row) {
        for (int k = 0; k < layout.depth; ++k) {
            const T& value = matrix[static_cast<size_t>(row * layout.depth + k)];
            memcpy(reinterpret_cast<char*>(image.data()) + layout.place(row, k),
                   static_cast<const void*>(&value), sizeof(T));
        }
    }
    return image;
}

// Four registers of each thread for each step, as the manual lays them out.
template <class T>
std::vector<uint32_t> fragments_of(const std::vector<T>& matrix, int depth) {
    constexpr int kDepth = kit::kWgmmaDepth<T>, kWide = 4 / static_cast<int>(sizeof(T));
    std::vector<uint32_t> fragments(static_cast<size_t>(depth / kDepth * 128 * 4));
    for (int step = 0; step < depth / kDepth; ++step) {
        for (int thread = 0; thread < 128; ++thread) {
            for (int i = 0; i < 4 * kWide; ++i) {
                const int row = thread / 32 * 16 + thread % 32 / 4 + (i / kWide % 2 == 0 ? 0 : 8);
                const int k =
                    step * kDepth + thread % 4 * kWide + i % kWide + (i < 2 * kWide ? 0 : kDepth / 2);
                const T& value = matrix[static_cast<size_t>(row * depth + k)];
                memcpy(reinterpret_cast<char*>(&fragments[static_cast<size_t>((step * 128 + thread) * 4)]) +
                           static_cast<size_t>(i) * sizeof(T),
                       static_cast<const void*>(&value), sizeof(T));
            }
        }
    }
    return fragments;
}

template <class A, class B, int N, Major kA = Major::k, Major kB = Major::k, bool kRegisters = false>
void check_group(Swizzle swizzle_a, Swizzle swizzle_b) {
    // As deep as the narrower of K-major rows, at least two instructions where there is no other limit.
    constexpr int kDepth = kit::kWgmmaDepth<A>, kBytes = static_cast<int>(sizeof(A));
    int depth = 4 * kDepth;
    if (kA == Major::k && !kRegisters && swizzle_a != Swizzle::none)
        depth = std::min(depth, static_cast<int>(swizzle_a) / kBytes);
    if (kB == Major::k && swizzle_b != Swizzle::none)
        depth = std::min(depth, static_cast<int>(swizzle_b) / kBytes);
    const Layout layout_a{kA, swizzle_a, 64, depth, kBytes}, layout_b{kB, swizzle_b, N, depth, kBytes};
    SCOPED_TRACE(testing::Message() << "N " << N << ", A "
                                    << (kRegisters       ? "registers"
                                        : kA == Major::k ? "K"
                                                         : "M")
                                    << " in " << layout_a.width() << ", B " << (kB == Major::k ? "K" : "N")
                                    << " in " << layout_b.width() << ", depth " << depth);
    using Sum = kit::Accumulator<A>;
    const auto a = integers<A>(static_cast<size_t>(64 * depth), 1);
    const auto b = integers<B>(static_cast<size_t>(N * depth), 2);
    const auto c = integers<Sum>(static_cast<size_t>(64 * N), 3);
    Buffer<uint4> there_a(image_of(layout_a, a)), there_b(image_of(layout_b, b));
    Buffer<uint32_t> fragments(fragments_of(a, depth));
    Buffer<Sum> there_c(c), there_d(c.size());
    const size_t shared =
        static_cast<size_t>((layout_a.bytes() + 1023) / 1024 * 1024 + layout_b.bytes() + 1024);
    kit::launch("multiply_group", multiply_group<A, B, N, kA, kB, kRegisters>,
                {.grid = 1, .block = 128, .dynamic_shared = shared}, Stream{}, there_a.data(), there_b.data(),
                fragments.data(), there_c.data(), there_d.data(), operand_of(layout_a), operand_of(layout_b),
                depth / kDepth);
    const auto d = there_d.values();
    for (int row = 0; row < 64; ++row) {
        for (int column = 0; column < N; ++column) {
            Sum expected = c[static_cast<size_t>(row * N + column)];
            for (int k = 0; k < depth; ++k) {
                expected += static_cast<Sum>(a[static_cast<size_t>(row * depth + k)]) *
                            static_cast<Sum>(b[static_cast<size_t>(column * depth + k)]);
            }
            ASSERT_EQ(d[static_cast<size_t>(row * N + column)], expected) << row << "," << column;
        }
    }
}

constexpr Swizzle kEvery[] = {Swizzle::none, Swizzle::bytes32, Swizzle::bytes64, Swizzle::bytes128};

ON_BOTH(90, WgmmaOfEveryLayout) {
    using kit::bf16;
    for (const Swizzle swizzle : kEvery) {
        check_group<bf16, bf16, 64>(swizzle, Swizzle::bytes128);
        check_group<bf16, bf16, 64>(Swizzle::bytes128, swizzle);
        check_group<bf16, bf16, 64, Major::mn, Major::k>(swizzle, Swizzle::bytes64);
        check_group<bf16, bf16, 64, Major::k, Major::mn>(Swizzle::bytes128, swizzle);
        check_group<bf16, bf16, 64, Major::mn, Major::mn>(Swizzle::bytes128, swizzle);
        check_group<bf16, bf16, 64, Major::k, Major::k, true>(Swizzle::none, swizzle);
        check_group<bf16, bf16, 64, Major::k, Major::mn, true>(Swizzle::none, swizzle);
    }
}

template <class A, class B>
void check_sizes() {
    check_group<A, B, 16>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 32>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 80>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 128>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 176>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 248>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 256>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<A, B, 128, Major::k, Major::k, true>(Swizzle::none, Swizzle::bytes128);
}

ON_BOTH(90, WgmmaOfEveryTypeAndSize) {
    check_sizes<kit::bf16, kit::bf16>();
    check_sizes<kit::half, kit::half>();
    check_sizes<kit::e4m3, kit::e4m3>();
    check_sizes<kit::e4m3, kit::e5m2>();
    check_sizes<kit::e5m2, kit::e4m3>();
    check_sizes<kit::e5m2, kit::e5m2>();
    check_group<kit::bf16, kit::bf16, 256, Major::k, Major::mn, true>(Swizzle::none, Swizzle::bytes128);
    check_group<kit::half, kit::half, 128, Major::k, Major::mn>(Swizzle::bytes128, Swizzle::bytes128);
}

ON_BOTH(90, WgmmaOfInt8SumsWholeNumbers) {
    using T = std::int8_t;
    check_group<T, T, 16>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<T, T, 64>(Swizzle::bytes64, Swizzle::bytes32);
    check_group<T, T, 128>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<T, T, 176>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<T, T, 256>(Swizzle::bytes128, Swizzle::bytes128);
    check_group<T, T, 128, Major::k, Major::k, true>(Swizzle::none, Swizzle::bytes128);
}

ON_BOTH(90, WgmmaInAnyOrder) {
    test::in_several_orders([] {
        check_group<kit::bf16, kit::bf16, 64>(Swizzle::bytes128, Swizzle::bytes128);
        check_group<kit::half, kit::half, 64, Major::k, Major::mn, true>(Swizzle::none, Swizzle::bytes128);
    });
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
