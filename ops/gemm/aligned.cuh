// Rows that begin anywhere, copied to where each begins at a multiple of 16 bytes.
#pragma once

#include "kit/divisor.cuh"
#include "kit/ptx/memory.cuh"
#include "kit/ptx/pdl.cuh"
#include "kit/vector.cuh"

namespace weft::inline WEFT_TARGET {
namespace {

inline constexpr int kAlignThreads = 256, kAlignChunks = 4;  // chunks of 16 bytes: of a thread

struct AlignOperand {
    const char* from;
    char* to;
    int64_t from_stride, to_stride;  // bytes from a row to the next
    int length;                      // bytes of a row
    int unit;                        // 8, 4, 2 or 1: all rows begin and end at a multiple of so many bytes
    kit::Divisor chunks;             // of a row; the last may have less, and is zeros where it ends
    unsigned count;                  // of all rows
    unsigned blocks;
};
struct AlignArguments {
    AlignOperand operands[3];
};

// 16 bytes of a row in pieces of a Word, of which `left` are bytes of the row.
template <class Word>
__device__ __forceinline__ uint4 gather_chunk(const char* from, int left) {
    constexpr int kBytes = sizeof(Word), kCount = 16 / kBytes;
    alignas(16) Word words[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i)
        words[i] = i * kBytes < left ? kit::load(reinterpret_cast<const Word*>(from) + i) : Word{};
    uint4 chunk;
    memcpy(&chunk, words, 16);
    return chunk;
}

// A thread's chunks, a block of threads apart: all are asked for before the first is stored.
template <class Word>
__device__ __forceinline__ void align_chunks(const AlignOperand& operand, unsigned block) {
    const unsigned first = block * kAlignThreads * kAlignChunks + threadIdx.x;
    uint4 chunks[kAlignChunks];
    char* to[kAlignChunks];
#pragma unroll
    for (int i = 0; i < kAlignChunks; ++i) {
        const unsigned index = min(first + i * kAlignThreads, operand.count - 1);
        const unsigned row = operand.chunks.quotient(index);
        const auto begin = static_cast<int>((index - row * operand.chunks.divisor) * 16);
        chunks[i] =
            gather_chunk<Word>(operand.from + row * operand.from_stride + begin, operand.length - begin);
        to[i] = operand.to + row * operand.to_stride + begin;
    }
#pragma unroll
    for (int i = 0; i < kAlignChunks; ++i) {
        if (first + i * kAlignThreads >= operand.count) break;
        kit::store(reinterpret_cast<uint4*>(to[i]), chunks[i]);
    }
}

// What:    rows of up to three operands, with zeros up to whole 16 bytes behind each.
// Mapping: a thread has four chunks of an operand, as if its rows were one; neighbours are neighbours.
// Traffic: every row once in and once out; bound by the memory, of rows at odd bytes by the pieces that they are read in.
// Needs:   kAlignThreads threads, as many blocks as the operands say; rows of `to` at multiples of 16 bytes with room for whole
//          chunks.
__global__ void __launch_bounds__(kAlignThreads) align_rows(const __grid_constant__ AlignArguments args) {
    kit::dependency_wait();
    kit::dependents_launch();
    unsigned block = blockIdx.x;
    int i = 0;
    for (; block >= args.operands[i].blocks; ++i) block -= args.operands[i].blocks;
    const AlignOperand& operand = args.operands[i];
    switch (operand.unit) {
        case 8: return align_chunks<uint2>(operand, block);
        case 4: return align_chunks<uint32_t>(operand, block);
        case 2: return align_chunks<uint16_t>(operand, block);
        default: return align_chunks<uint8_t>(operand, block);
    }
}

}  // namespace
}  // namespace weft::inline WEFT_TARGET
