// OpenBLAS's sgemm, found at run time.
#pragma once

namespace weft::gemm {

// cblas_sgemm with 32-bit integers. The first three arguments are CBLAS's enumerators.
inline constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;
using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                       const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);

// Null where OpenBLAS is not installed. Looked for once a process, and never unloaded: the file that
// WEFT_OPENBLAS names, else libopenblas.so.0 where the loader finds it.
Sgemm find_sgemm();

}  // namespace weft::gemm
