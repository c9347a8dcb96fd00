// ldmatrix: 8x8 matrices of 16-bit elements from shared memory into the fragments of mma.sync.
//
// Lane i gives the address of one row (16 bytes, 16-byte aligned): lanes 0-7 the rows of matrix 0, lanes 8-15
// those of matrix 1, and so on. Register m of lane i receives, of matrix m, row i / 4, elements 2 (i mod 4)
// and the next; transposed: column i / 4, elements 2 (i mod 4) and the next.
#pragma once

#include "kit/ptx/memory.cuh"

namespace weft::inline WEFT_TARGET::kit {

#if defined(WEFT_EMULATOR)
namespace detail {

struct LdmatrixLane {
    uint16_t row[8];
    uint32_t* registers;
};

template <int Matrices, bool Transposed>
void complete_ldmatrix(void* const* lanes, uint32_t mask) {
    if (mask != 0xffffffffu)
        emulator::fault_in_lane(__builtin_ctz(mask), "ldmatrix: a lane of the warp has exited");
    const auto row = [lanes](int index) { return static_cast<const LdmatrixLane*>(lanes[index])->row; };
    for (int lane = 0; lane < 32; ++lane) {
        uint32_t* registers = static_cast<LdmatrixLane*>(lanes[lane])->registers;
        const int outer = lane / 4, inner = lane % 4 * 2;
        for (int m = 0; m < Matrices; ++m) {
            const uint32_t low = Transposed ? row(8 * m + inner)[outer] : row(8 * m + outer)[inner];
            const uint32_t high = Transposed ? row(8 * m + inner + 1)[outer] : row(8 * m + outer)[inner + 1];
            registers[m] = high << 16 | low;
        }
    }
}

// Each lane reads its own row, so that the sanitizers see who reads what. The addresses of lanes beyond the
// last matrix are ignored.
template <int Matrices, bool Transposed>
void ldmatrix(const char* what, uint32_t* registers, const void* shared, const emulator::Where& where) {
    LdmatrixLane lane{{}, registers};
    if (emulator::self().lane < 8u * Matrices) {
        emulator::check_aligned(what, shared, 16);
        for (int i = 0; i < 8; ++i) lane.row[i] = static_cast<const uint16_t*>(shared)[i];
    }
    emulator::warp_collective(what, &lane, &complete_ldmatrix<Matrices, Transposed>, where);
}

}  // namespace detail
#endif

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::ldmatrix<4, false>("ldmatrix_x4", r, shared, where);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared))
                 : "memory");
#endif
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::ldmatrix<4, true>("ldmatrix_x4_trans", r, shared, where);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared))
                 : "memory");
#endif
}

__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* shared WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::ldmatrix<2, false>("ldmatrix_x2", r, shared, where);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(shared))
                 : "memory");
#endif
}

__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], const void* shared WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::ldmatrix<2, true>("ldmatrix_x2_trans", r, shared, where);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(shared))
                 : "memory");
#endif
}

__device__ __forceinline__ void ldmatrix_x1_trans(uint32_t (&r)[1], const void* shared WEFT_WHERE) {
#if defined(WEFT_EMULATOR)
    detail::ldmatrix<1, true>("ldmatrix_x1_trans", r, shared, where);
#else
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(shared_address(shared))
                 : "memory");
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
