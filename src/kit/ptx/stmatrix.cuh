// stmatrix (SM 9.0): 8x8 matrices of 16-bit elements from the fragments of the tensor cores into shared memory.
//
// Lane i gives the address of one row (16 bytes, 16-byte aligned): lanes 0-7 the rows of matrix 0, lanes 8-15 those of
// matrix 1, and so on; the addresses of lanes beyond the last matrix are ignored. Transposed, register m of lane i
// holds, of matrix m, column i / 4, elements 2 (i mod 4) and the next: an accumulator's columns become rows.
#pragma once

#include "kit/ptx/memory.cuh"

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
namespace detail {

struct StmatrixLane {
    const uint32_t* registers;
    uint16_t row[8];
};

template <int Matrices>
void complete_stmatrix_trans(void* const* lanes, uint32_t mask) {
    if (mask != 0xffffffffu)
        emulator::fault_in_lane(__builtin_ctz(mask), "stmatrix: a lane of the warp has exited");
    for (int lane = 0; lane < 8 * Matrices; ++lane) {
        const int row = lane % 8;
        for (int column = 0; column < 8; ++column) {
            const auto* from = static_cast<const StmatrixLane*>(lanes[4 * column + row / 2]);
            static_cast<StmatrixLane*>(lanes[lane])->row[column] =
                static_cast<uint16_t>(from->registers[lane / 8] >> 16 * (row % 2));
        }
    }
}

// Each lane writes its own row, so that the sanitizers see who writes what.
template <int Matrices>
void stmatrix_trans(const char* what, void* shared, const uint32_t* registers, const emulator::Where& where) {
    StmatrixLane lane{registers, {}};
    const bool stores = emulator::self().lane < 8u * Matrices;
    if (stores) emulator::check_aligned(what, shared, 16);
    emulator::warp_collective(what, &lane, &complete_stmatrix_trans<Matrices>, where);
    for (int i = 0; stores && i < 8; ++i) static_cast<uint16_t*>(shared)[i] = lane.row[i];
}

}  // namespace detail
#endif

// 1, 2 or 4 matrices.
template <int Matrices>
__device__ __forceinline__ void stmatrix_trans(void* shared, const uint32_t (&r)[Matrices] WEFT_WHERE) {
    static_assert(Matrices == 1 || Matrices == 2 || Matrices == 4);
#if defined(WEFT_EMULATOR)
    detail::stmatrix_trans<Matrices>("stmatrix_trans", shared, r, where);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const auto address = shared_address(shared);
    if constexpr (Matrices == 4) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                     "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                     : "memory");
    } else if constexpr (Matrices == 2) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
                     "r"(r[0]), "r"(r[1])
                     : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(r[0])
                     : "memory");
    }
#else
    __trap();
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
