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

// What the heuristic offers within a limit of workspace, its favourite first. Partial sums stay in fp32: a
// split that reduces in out's dtype would round twice. Where there is something to add, nothing is split at
// all: the reduction rounds to out's dtype before it adds a residual (seen on an H200).
std::vector<cublasLtMatmulHeuristicResult_t> ask(cublasLtHandle_t handle, const Plan& plan, const Gemm& op,
                                                 std::size_t workspace, int count);

// The fastest of what the heuristic offers, timed: waits, allocates, and writes out. Its favourite where there is no
// memory to time with; nothing where it offers nothing, or nothing that runs.
std::optional<cublasLtMatmulHeuristicResult_t> fastest(cublasLtHandle_t handle, const Plan& plan,
                                                       const Gemm& op, Context& context);

}  // namespace weft::gemm
