// gemm's operands of four bits on the way to the tensor cores: codes and the scales of their groups come into registers, and
// lie in shared memory as the 16-bit numbers that they are.
#pragma once

#include "kit/mma_tile.cuh"
#include "kit/narrow.cuh"
#include "ops/gemm/problem.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of `length` codes, `stride` apart, one after the other along k; none where `data` is null.
struct PackedOperand {
    const void* data;
    int64_t rows, length, stride;
    bool words;  // every row begins at a multiple of four bytes
    bool plain;  // and consists of such, and 32 bits count the bytes: loads need no branches
    GroupScales groups;
};

// Of codes of four bits; nothing of other operands.
inline PackedOperand packed_operand(const Tensor& t, int64_t rows, int64_t length, int64_t stride,
                                    const gemm::ScalesAlong& scales) {
    if (!t || t.dtype != DType::fp4_e2m1) return {};
    const bool words = kit::rows_aligned(t, 8);
    return {.data = t.data,
            .rows = rows,
            .length = length,
            .stride = stride,
            .words = words,
            .plain = words && gemm::plain_codes(rows, length, stride, scales.groups),
            .groups = scales.groups};
}

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

// A plain operand's scales as a thread finds them: of a row and of a group there are numbers whose sum is the scale's place.
struct ScalePlaces {
    bool swizzled;
    uint32_t row_stride, group_stride, tile_row;  // tile_row: from 128 rows to the next

    __device__ __forceinline__ explicit ScalePlaces(const GroupScales& from)
        : swizzled(from.swizzled),
          row_stride(static_cast<uint32_t>(from.row_stride)),
          group_stride(static_cast<uint32_t>(from.group_stride)),
          tile_row(static_cast<uint32_t>(from.padded_groups) / 4 * 512) {}
    __device__ __forceinline__ uint32_t of_row(uint32_t row) const {
        return swizzled ? row / 128 * tile_row + row % 32 * 16 + row % 128 / 32 * 4 : row * row_stride;
    }
    __device__ __forceinline__ uint32_t of_group(uint32_t group) const {
        return swizzled ? group / 4 * 512 + group % 4 : group * group_stride;
    }
};

// A thread's part of a panel, 128 bytes of each of `Rows` rows as numbers of 16 bits: so many eights, at one place along k, of
// rows that are kApart from each other. Where two matrices take turns, eight rows each, all of a thread's are of one of them.
template <int Rows, int Threads>
struct PackedPart {
    static constexpr int kApart = Threads / kit::kPanelChunks, kCount = Rows / kApart;
    static_assert(Rows % kApart == 0 && kApart % 16 == 0);
    using Eights = PackedEight[kCount];

    __device__ __forceinline__ static int chunk() {
        return static_cast<int>(threadIdx.x) % kit::kPanelChunks;
    }
    __device__ __forceinline__ static int first_row() {
        return static_cast<int>(threadIdx.x) / kit::kPanelChunks;
    }
    __device__ __forceinline__ static bool other(bool turns) { return turns && first_row() / 8 % 2 != 0; }
    // Of eight i, in its matrix.
    __device__ __forceinline__ static int row(bool turns, int i) {
        return turns ? first_row() / 16 * 8 + first_row() % 8 + i * (kApart / 2) : first_row() + i * kApart;
    }
    // As numbers, zeros where the panel is beyond the last of `left` columns. `scales`: the dtype of those of both matrices.
    template <class T>
    __device__ __forceinline__ static void put(char* panel, const Eights& eights, DType scales,
                                               int64_t left) {
        const uint32_t there = chunk() * 8 < left ? ~0u : 0u;
        scales == DType::ue8m0 ? put_as<T, DType::ue8m0>(panel, eights, there)
                               : put_as<T, DType::fp8_e4m3>(panel, eights, there);
    }

   private:
    template <class T, DType kScales>
    __device__ __forceinline__ static void put_as(char* panel, const Eights& eights, uint32_t there) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const T scale = kit::from_float<T>(kit::scale_value(kScales, eights[i].scale & there));
            kit::store(reinterpret_cast<uint4*>(panel + kit::panel_offset(first_row() + i * kApart, chunk())),
                       kit::scaled_e2m1(eights[i].codes & there, scale));
        }
    }
};

// Where that part lies in memory, from row `row` on: of any operands.
template <int Rows, int Threads>
class AnyPacked {
   public:
    using Part = PackedPart<Rows, Threads>;
    __device__ __forceinline__ AnyPacked(const PackedOperand& first, const PackedOperand& second, bool turns,
                                         int64_t row)
        : first_(first), second_(second), turns_(turns), row_(row) {}

    // From column `at` on.
    __device__ __forceinline__ void fetch(typename Part::Eights& eights, int64_t at) const {
#pragma unroll
        for (int i = 0; i < Part::kCount; ++i) {
            eights[i] = load_packed(Part::other(turns_) ? second_ : first_, row_ + Part::row(turns_, i),
                                    at + Part::chunk() * 8);
        }
    }

   private:
    const PackedOperand &first_, &second_;
    bool turns_;
    int64_t row_;
};

// Of plain operands: what a load needs is known before the first, and addresses are kept within the matrix. So loads have no
// branches between them, and all are on their way before one is waited for. What is not there is anything: no result has a row
// beyond the last, and `put` leaves columns beyond the last out.
template <int Rows, int Threads>
class PlainPacked {
   public:
    using Part = PackedPart<Rows, Threads>;
    __device__ __forceinline__ PlainPacked(const PackedOperand& first, const PackedOperand& second,
                                           bool turns, int64_t row)
        : last_column_(static_cast<uint32_t>(first.length) - 8),
          group_log2_(first.groups.dtype == DType::ue8m0 ? 5 : 4),
          codes_(static_cast<const uint8_t*>(Part::other(turns) ? second.data : first.data)),
          scales_(static_cast<const uint8_t*>(Part::other(turns) ? second.groups.data : first.groups.data)),
          places_(first.groups) {
        if (Part::other(turns)) places_ = ScalePlaces(second.groups);
        const auto row_bytes = static_cast<uint32_t>((Part::other(turns) ? second.stride : first.stride) / 2);
#pragma unroll
        for (int i = 0; i < Part::kCount; ++i) {
            const auto r = static_cast<uint32_t>(min(row + Part::row(turns, i), first.rows - 1));
            rows_[i] = r * row_bytes, scale_rows_[i] = places_.of_row(r);
        }
    }

    // From column `at` on.
    __device__ __forceinline__ void fetch(typename Part::Eights& eights, int64_t at) const {
        const uint32_t column = min(static_cast<uint32_t>(at) + Part::chunk() * 8, last_column_);
        const uint8_t *codes = codes_ + column / 2,
                      *scales = scales_ + places_.of_group(column >> group_log2_);
#pragma unroll
        for (int i = 0; i < Part::kCount; ++i) {
            eights[i].codes = kit::load(reinterpret_cast<const uint32_t*>(codes + rows_[i]));
            eights[i].scale = scales[scale_rows_[i]];
        }
    }

   private:
    uint32_t last_column_;  // in which eight may begin
    int group_log2_;
    const uint8_t *codes_, *scales_;
    ScalePlaces places_;
    uint32_t rows_[Part::kCount], scale_rows_[Part::kCount];  // where they begin, in bytes
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
