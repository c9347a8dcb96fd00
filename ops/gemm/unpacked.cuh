// Codes of four bits, unpacked: the numbers of 16 bits that mma_sync multiplies, in memory.
#pragma once

#include "kit/divisor.cuh"
#include "kit/ptx/pdl.cuh"
#include "ops/gemm/packed.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kUnpackThreads = 256, kUnpackEights = 4;  // of a thread

struct UnpackOperand {
    PackedOperand from;
    char* to;
    int64_t to_bytes;     // from a row to the next
    kit::Divisor eights;  // of a row; the last may have less, and is zeros where it ends
    unsigned count;       // of all rows
    unsigned blocks;
};
struct UnpackArguments {
    UnpackOperand operands[3];
};

// A thread's eights, a block of threads apart. All loads of a plain operand are on their way before the first is waited for.
class UnpackPart {
   public:
    __device__ __forceinline__ UnpackPart(const UnpackOperand& operand, unsigned block)
        : operand_(operand), first_(block * kUnpackThreads * kUnpackEights + threadIdx.x) {}

    __device__ __forceinline__ void fetch_plain() {
        const PackedOperand& from = operand_.from;
        const GroupScales& groups = from.groups();
        const ScalePlaces places(groups);
        const auto row_bytes = static_cast<uint32_t>(from.stride / 2),
                   row_groups = static_cast<uint32_t>(groups.groups);
        const auto* codes = static_cast<const uint8_t*>(from.data);
        const int8_t* zeros = from.scales.zeros;
        with_scale_bits(groups, [&](const auto* scales) {
#pragma unroll
            for (int i = 0; i < kUnpackEights; ++i) {
                const Place at = place(i);
                const uint32_t group = at.column >> from.scales.columns_log2;
                const uint8_t* word = codes + (at.row * row_bytes + at.column / 2);
                eights_[i].codes = kit::load(reinterpret_cast<const uint32_t*>(word));
                eights_[i].scale = scales[places.of_row(at.row) + places.of_group(group)];
                if (sizeof(*scales) > 1 && zeros != nullptr)
                    eights_[i].zero = zeros[at.row * row_groups + group];
            }
        });
    }
    __device__ __forceinline__ void fetch_any() {
#pragma unroll
        for (int i = 0; i < kUnpackEights; ++i) {
            const Place at = place(i);
            eights_[i] = load_packed(operand_.from, at.row, at.column);
        }
    }
    template <class T, Codes kCodes>
    __device__ __forceinline__ void store() const {
#pragma unroll
        for (int i = 0; i < kUnpackEights; ++i) {
            if (first_ + i * kUnpackThreads >= operand_.count) break;
            const Place at = place(i);
            char* to = operand_.to + at.row * operand_.to_bytes + at.column * sizeof(T);
            kit::store(reinterpret_cast<uint4*>(to),
                       eights_[i].template numbers<T, kCodes>(operand_.from.groups().dtype));
        }
    }

   private:
    struct Place {
        unsigned row, column;
    };
    // Of eight i, or of the last.
    __device__ __forceinline__ Place place(int i) const {
        const unsigned index = min(first_ + i * kUnpackThreads, operand_.count - 1);
        const unsigned row = operand_.eights.quotient(index);
        return {row, (index - row * operand_.eights.divisor) * 8};
    }

    const UnpackOperand& operand_;
    unsigned first_;
    PackedEight eights_[kUnpackEights];
};

// What:    codes of four bits times the scales of their groups as numbers of 16 bits, of up to three operands.
// Mapping: a thread has four eights of an operand, as if its rows were one; neighbours are neighbours.
// Traffic: codes and scales once, numbers once; bound by the memory, which a fifth of what is moved is read from.
// Needs:   kUnpackThreads threads, as many blocks as the operands say; rows of `to` at multiples of 16 bytes, padded to eights.
template <class T>
__global__ void __launch_bounds__(kUnpackThreads) unpack(const __grid_constant__ UnpackArguments args) {
    kit::dependency_wait();
    kit::dependents_launch();
    unsigned block = blockIdx.x;
    int i = 0;
    for (; block >= args.operands[i].blocks; ++i) block -= args.operands[i].blocks;
    const UnpackOperand& operand = args.operands[i];
    UnpackPart part(operand, block);
    operand.from.plain ? part.fetch_plain() : part.fetch_any();
    switch (codes_of(operand.from.groups().dtype)) {
        case Codes::mx: return part.template store<T, Codes::mx>();
        case Codes::whole: return part.template store<T, Codes::whole>();
        default: return part.template store<T, Codes::nv>();
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
