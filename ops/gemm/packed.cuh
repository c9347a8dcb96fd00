// gemm's operands of four bits on the way to the tensor cores: codes and the scales of their groups come into registers, and
// lie in shared memory as the 16-bit numbers that they are.
#pragma once

#include "kit/mma_tile.cuh"
#include "ops/gemm/int4.cuh"
#include "ops/gemm/problem.h"

namespace weft::inline WEFT_TARGET {
namespace {

// Rows of `length` codes, `stride` apart, one after the other along k; none where `data` is null.
struct PackedOperand {
    const void* data;
    int64_t rows, length, stride;
    bool words;  // every row begins at a multiple of four bytes
    bool plain;  // and consists of such, and 32 bits count the bytes: loads need no branches
    gemm::ScalesAlong scales;

    constexpr const GroupScales& groups() const { return scales.groups; }
};

// Of codes of four bits; nothing of other operands.
inline PackedOperand packed_operand(const Tensor& t, int64_t rows, int64_t length, int64_t stride,
                                    const gemm::ScalesAlong& scales) {
    if (!t || bits(t.dtype) != 4) return {};
    const bool words = kit::rows_aligned(t, 8);
    return {.data = t.data,
            .rows = rows,
            .length = length,
            .stride = stride,
            .words = words,
            .plain = words && gemm::plain_codes(rows, length, stride, scales),
            .scales = scales};
}

// How codes are made into numbers: e2m1 by the dtype of its scales, int4 by one that is known where a kernel runs.
enum class Codes { none, nv, mx, whole };
__host__ __device__ __forceinline__ Codes codes_of(DType scales) {
    return scales == DType::ue8m0 ? Codes::mx : scales == DType::fp8_e4m3 ? Codes::nv : Codes::whole;
}

// Eight neighbours of a row and the scale of their group, as they are stored, and its zero point.
struct PackedEight {
    uint32_t codes = 0, scale = 0;
    int32_t zero = 0;

    // As numbers. `scales`: their dtype.
    template <class T, Codes kCodes>
    __device__ __forceinline__ uint4 numbers(DType scales) const {
        if constexpr (kCodes == Codes::whole) {
            return scaled_int4(codes, static_cast<float>(zero), int4_scale<T>(scales, scale));
        } else {
            constexpr DType kScales = kCodes == Codes::mx ? DType::ue8m0 : DType::fp8_e4m3;
            return kit::scaled_e2m1(codes, kit::from_float<T>(kit::scale_value(kScales, scale)));
        }
    }
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
    const int64_t group = at >> from.scales.columns_log2;
    const int64_t place = from.groups().at(row, group);
    with_scale_bits(from.groups(), [&](const auto* scales) { eight.scale = scales[place]; });
    if (from.scales.zeros != nullptr) eight.zero = from.scales.zeros[row * from.groups().groups + group];
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
        switch (codes_of(scales)) {
            case Codes::mx: return put_as<T, Codes::mx>(panel, eights, scales, there);
            case Codes::whole: return put_as<T, Codes::whole>(panel, eights, scales, there);
            default: return put_as<T, Codes::nv>(panel, eights, scales, there);
        }
    }

   private:
    template <class T, Codes kCodes>
    __device__ __forceinline__ static void put_as(char* panel, const Eights& eights, DType scales,
                                                  uint32_t there) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const PackedEight eight{eights[i].codes & there, eights[i].scale & there, eights[i].zero};
            kit::store(reinterpret_cast<uint4*>(panel + kit::panel_offset(first_row() + i * kApart, chunk())),
                       eight.template numbers<T, kCodes>(scales));
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
          group_log2_(first.scales.columns_log2),
          codes_(static_cast<const uint8_t*>(Part::other(turns) ? second.data : first.data)),
          groups_(Part::other(turns) ? second.groups() : first.groups()),
          zeros_(Part::other(turns) ? second.scales.zeros : first.scales.zeros),
          places_(groups_) {
        const auto row_bytes = static_cast<uint32_t>((Part::other(turns) ? second.stride : first.stride) / 2);
#pragma unroll
        for (int i = 0; i < Part::kCount; ++i) {
            const auto r = static_cast<uint32_t>(min(row + Part::row(turns, i), first.rows - 1));
            rows_[i] = r * row_bytes, scale_rows_[i] = places_.of_row(r);
            if (zeros_ != nullptr) zero_rows_[i] = r * static_cast<uint32_t>(groups_.groups);
        }
    }

    // From column `at` on.
    __device__ __forceinline__ void fetch(typename Part::Eights& eights, int64_t at) const {
        const uint32_t column = min(static_cast<uint32_t>(at) + Part::chunk() * 8, last_column_);
        const uint32_t group = column >> group_log2_, place = places_.of_group(group);
        const uint8_t* codes = codes_ + column / 2;
        with_scale_bits(groups_, [&](const auto* scales) {
#pragma unroll
            for (int i = 0; i < Part::kCount; ++i) {
                eights[i].codes = kit::load(reinterpret_cast<const uint32_t*>(codes + rows_[i]));
                eights[i].scale = scales[scale_rows_[i] + place];
                if (sizeof(*scales) > 1 && zeros_ != nullptr) eights[i].zero = zeros_[zero_rows_[i] + group];
            }
        });
    }

   private:
    uint32_t last_column_;  // in which eight may begin
    int group_log2_;
    const uint8_t* codes_;
    GroupScales groups_;
    const int8_t* zeros_;
    ScalePlaces places_;
    // Where they begin, in bytes, and their scales and zero points, in elements.
    uint32_t rows_[Part::kCount], scale_rows_[Part::kCount], zero_rows_[Part::kCount];
};

}  // namespace
}  // namespace weft::inline WEFT_TARGET
