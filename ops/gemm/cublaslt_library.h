// The functions of libcublasLt that weft calls, found at run time.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <vector>

namespace weft::gemm {

struct CublasLt {
    // clang-format off: its backslashes wander from run to run
#define WEFT_CUBLASLT_FUNCTIONS(X) \
    X(Create) \
    X(Destroy) \
    X(Matmul) \
    X(MatmulAlgoGetHeuristic) \
    X(MatmulAlgoCheck) \
    X(MatmulAlgoConfigGetAttribute) \
    X(GetVersion) \
    X(MatmulDescCreate) \
    X(MatmulDescDestroy) X(MatmulDescSetAttribute) X(MatrixLayoutCreate) X(MatrixLayoutDestroy) \
        X(MatmulPreferenceCreate) X(MatmulPreferenceDestroy) X(MatmulPreferenceSetAttribute) \
            X(GetStatusString)
    // clang-format on
#define WEFT_CUBLASLT_MEMBER(function) decltype(&::cublasLt##function) function = nullptr;
    WEFT_CUBLASLT_FUNCTIONS(WEFT_CUBLASLT_MEMBER)
#undef WEFT_CUBLASLT_MEMBER

    // Where the library is looked for, in the order of asking. A bare name finds what the process has loaded already
    // (PyTorch's), the loader's path and the system's.
    static std::vector<std::string> places();
    // Takes the functions of the first of them that can be opened; false where none can, or where it lacks one.
    bool load(const std::vector<std::string>& places);
    // Puts a library of a test's own in place; null: the one that is installed again.
    static void replace(const CublasLt* other);
    // The library, or null where it is not installed. Looked for once a process, and never unloaded.
    static const CublasLt* find();
    // The same where it is known to be there; throws otherwise.
    static const CublasLt& get();
    // Throws Error(cuda) unless the status is success.
    void require(cublasStatus_t status, const char* what) const;
};

// Owners of the library's descriptors.
struct CublasLtRelease {
    void operator()(cublasLtContext* p) const { CublasLt::get().Destroy(p); }
    void operator()(cublasLtMatmulDescOpaque_t* p) const { CublasLt::get().MatmulDescDestroy(p); }
    void operator()(cublasLtMatrixLayoutOpaque_t* p) const { CublasLt::get().MatrixLayoutDestroy(p); }
    void operator()(cublasLtMatmulPreferenceOpaque_t* p) const { CublasLt::get().MatmulPreferenceDestroy(p); }
};
using CublasLtHandle = std::unique_ptr<cublasLtContext, CublasLtRelease>;
using CublasLtDesc = std::unique_ptr<cublasLtMatmulDescOpaque_t, CublasLtRelease>;
using CublasLtLayout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, CublasLtRelease>;
using CublasLtPreference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, CublasLtRelease>;

}  // namespace weft::gemm
