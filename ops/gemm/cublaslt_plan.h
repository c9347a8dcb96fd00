// A product as cuBLASLt is told of it, and what it offers for it: shared by launches (cublaslt.cpp) and timing
// (cublaslt_tuning.cpp).
#pragma once

#include <optional>
#include <vector>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/cublaslt_library.h"
#include "ops/gemm/gemm.h"
#include "weft/context.h"

namespace weft::gemm {

struct Plan {
    CublasLtDesc desc;
    CublasLtLayout a, b, c, d;  // a and b as cuBLASLt names them
    cublasLtMatmulAlgo_t algo{};
    std::size_t workspace = 0;
    const char* reason = nullptr;  // why the library declines; null: it takes the product
    const char* how = "";          // by which choice
    bool settled = false;          // outside of a capture, where nothing could be timed nor allocated
};

// The addresses of one product.
struct Pointers {
    const void *a, *b, *residual;  // weft's a and b
    void* out;
};

cublasStatus_t multiply(cublasLtHandle_t handle, const Plan& plan, const cublasLtMatmulAlgo_t& algo,
                        const Pointers& at, void* workspace, std::size_t bytes, Stream stream);

// What of an algorithm says how often its result is rounded. On an H200 every offer for 37 products was run and compared with
// the exact result, rounded once: those with the library's number 66, its kernels for Hopper (`nvjet`), agree with whatever
// epilogue and however many parts k is in. Older ones round to out's dtype before a GELU, between residual and bias, and where
// parts meet before they add anything. What they add to one sum of all of k was rounded once in these products, and in some
// others was not, which the op's bound allows for a residual.
struct Algorithm {
    static constexpr int kRoundsOnce = 66;
    int number;
    int parts;  // of k, that are summed afterwards

    bool rounds_once(const Gemm& op) const;
};
Algorithm describe(const cublasLtMatmulAlgo_t& algo);

// What the heuristic offers within a limit of workspace, its favourite first, without what would round twice. Partial sums
// stay in fp32.
std::vector<cublasLtMatmulHeuristicResult_t> ask(cublasLtHandle_t handle, const Plan& plan, const Gemm& op,
                                                 std::size_t workspace, int count);

// The fastest of what the heuristic offers, timed: waits, allocates, and writes out. Its favourite where there is no
// memory to time with; nothing where it offers nothing, or nothing that runs.
std::optional<cublasLtMatmulHeuristicResult_t> fastest(cublasLtHandle_t handle, const Plan& plan,
                                                       const Gemm& op, Context& context);

}  // namespace weft::gemm
