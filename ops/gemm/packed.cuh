// gemm's operands of four bits on the way to the tensor cores: codes and the scales of their groups come into registers, and
// lie in shared memory as the 16-bit numbers that they are.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/narrow.cuh"
#include "weft/narrow.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of `length` codes, `stride` apart, one after the other along k; none where `data` is null.
struct PackedOperand {
    const void* data;
    int64_t rows, length, stride;
    bool words;  // every row begins at a multiple of four bytes
    GroupScales groups;
};

// Eight neighbours of a row and the scale of their group, as they are stored.
struct PackedEight {
    uint32_t codes = 0, scale = 0;
};

// The eight from `at` on, a multiple of eight. Beyond the row's end, and beyond the last row, they are zeros.
__device__ __forceinline__ PackedEight load_packed(const PackedOperand& from, int64_t row, int64_t at) {
    const int64_t left = row < from.rows ? from.length - at : 0;
    PackedEight eight;
    if (left <= 0) return eight;
    const uint8_t* source = static_cast<const uint8_t*>(from.data) + (row * from.stride + at) / 2;
    if (from.words && left >= 8) {
        eight.codes = *reinterpret_cast<const uint32_t*>(source);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (2 * i < left) eight.codes |= uint32_t{source[i]} << 8 * i;
        }
    }
    eight.scale = kit::load_scale_bits(from.groups, row, at);
    return eight;
}

// What a thread brings of a panel, 128 bytes of each of `Rows` rows as numbers of 16 bits: as load_panel does, but in two
// steps, between which the memory answers.
template <int Rows, int Threads>
class PackedPanel {
   public:
    // From (row, at) on. `turns`: eight rows are of `first` and eight of `second`.
    __device__ __forceinline__ void fetch(const PackedOperand& first, const PackedOperand& second, bool turns,
                                          int64_t row, int64_t at) {
        each([&](PackedEight& eight, int r, int c) {
            const bool other = turns && r / 8 % 2 != 0;
            eight = load_packed(other ? second : first, row + (turns ? r / 16 * 8 + r % 8 : r), at + c * 8);
        });
    }
    // `scales`: the dtype of those of both.
    template <class T>
    __device__ __forceinline__ void put(char* panel, DType scales) {
        each([&](const PackedEight& eight, int r, int c) {
            const T scale = kit::from_float<T>(kit::scale_value(scales, eight.scale));
            kit::store(reinterpret_cast<uint4*>(panel + kit::panel_offset(r, c)),
                       kit::scaled_e2m1(eight.codes, scale));
        });
    }

   private:
    static constexpr int kChunks = Rows * kit::kPanelChunks, kCount = (kChunks + Threads - 1) / Threads;

    // use(eight, row, chunk) for those of this thread.
    template <class F>
    __device__ __forceinline__ void each(F use) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const int index = i * Threads + static_cast<int>(threadIdx.x);
            if (kChunks % Threads != 0 && index >= kChunks) break;
            use(eights_[i], index / kit::kPanelChunks, index % kit::kPanelChunks);
        }
    }

    PackedEight eights_[kCount];
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
