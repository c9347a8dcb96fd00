// A cuBLASLt of the tests' own: it notes what it is told of products, and offers algorithms 1, 2, 3, of which 2 wants
// workspace. All of them round once, if a test says nothing else.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/gemm/cublaslt.h"
#include "ops/gemm/cublaslt_library.h"
#include "tests/core/fake_cuda.h"
#include "weft/memory.h"

namespace weft::test {

constexpr Device kFakeDevice{DeviceType::cuda, 1};

// One product as it was asked for. Layouts are "type rows x columns / stride", attributes by their number.
struct Product {
    std::map<int, std::int64_t> attributes;
    const void *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
    std::string a_layout, b_layout, c_layout, d_layout;
    float alpha = 0, beta = 0;
    std::uint64_t algorithm = 0;
    bool has_workspace = false;
    std::size_t workspace = 0;
    std::uint16_t weight = 0;  // the first of the weights, which some tests have there
};
// What the heuristic was asked for.
struct Preference {
    std::map<int, std::int64_t> attributes;
    int wanted = 0;
};

struct Library {
    int asked = 0, offered = 3;
    int living = 0;  // descriptors that nothing has released
    bool refuses = false, refuses_heuristic = false, reads_weights = false;
    cublasStatus_t refusal = CUBLAS_STATUS_NOT_SUPPORTED;
    std::string failing;                                                     // the function that fails
    std::map<std::uint64_t, std::pair<std::int32_t, std::int32_t>> kernels;  // of an algorithm: number, parts
    std::uint64_t unusable = 0;        // an algorithm whose offer says that it can't be used
    std::uint64_t broken = 0;          // one that fails when it multiplies
    std::uint64_t checks_until = ~0u;  // algorithms from this one on fail their check
    std::size_t workspace_of_two = 4096;
    std::vector<std::uint64_t> multiplied;
    std::vector<Product> products;
    std::vector<Preference> preferences;

    bool noted = false;  // whether products and preferences are kept
};
inline Library library;

// Behind every handle of the library.
struct Described {
    std::map<int, std::int64_t> attributes;
    std::string layout;
};
inline Described& described(const void* handle) {
    return *static_cast<Described*>(const_cast<void*>(handle));
}

template <class T>
cublasStatus_t make(T** made, const char* function) {
    if (library.failing == function) return CUBLAS_STATUS_NOT_INITIALIZED;
    ++library.living;
    *made = reinterpret_cast<T*>(new Described());
    return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t destroy(T* made) {
    --library.living;
    delete reinterpret_cast<Described*>(made);
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t describe(const void* handle, int attribute, const void* value, std::size_t bytes,
                               const char* function) {
    if (library.failing == function) return CUBLAS_STATUS_INVALID_VALUE;
    std::int64_t wide = 0;
    std::memcpy(&wide, value, bytes);
    described(handle).attributes[attribute] = wide;
    return CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t fake_matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                                  const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                  cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                  cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                  const cublasLtMatmulAlgo_t* algo, void* workspace, size_t bytes,
                                  cudaStream_t) {
    if (library.refuses) return library.refusal;
    if (algo->data[0] == library.broken) return CUBLAS_STATUS_EXECUTION_FAILED;
    library.multiplied.push_back(algo->data[0]);
    if (!library.noted) return CUBLAS_STATUS_SUCCESS;
    Product p{.attributes = described(desc).attributes,
              .a = a,
              .b = b,
              .c = c,
              .d = d,
              .a_layout = described(a_layout).layout,
              .b_layout = described(b_layout).layout,
              .c_layout = described(c_layout).layout,
              .d_layout = described(d_layout).layout,
              .alpha = *static_cast<const float*>(alpha),
              .beta = *static_cast<const float*>(beta),
              .algorithm = algo->data[0],
              .has_workspace = workspace != nullptr,
              .workspace = bytes};
    if (library.reads_weights) std::memcpy(&p.weight, a, 2);
    library.products.push_back(p);
    return CUBLAS_STATUS_SUCCESS;
}

inline std::pair<std::int32_t, std::int32_t> kernel_of(std::uint64_t algorithm) {
    const auto found = library.kernels.find(algorithm);
    return found == library.kernels.end() ? std::pair{66, 1} : found->second;
}

inline cublasStatus_t fake_heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                     cublasLtMatmulPreference_t preference, int wanted,
                                     cublasLtMatmulHeuristicResult_t* results, int* found) {
    ++library.asked;
    const auto& preferred = described(preference).attributes;
    if (library.noted) library.preferences.push_back({preferred, wanted});
    const bool whole =
        preferred.at(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) == CUBLASLT_REDUCTION_SCHEME_NONE;
    *found = 0;
    for (int i = 0; i < library.offered && *found < wanted; ++i) {
        const auto number = static_cast<std::uint64_t>(i) + 1;
        if (whole && kernel_of(number).second > 1) continue;
        cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
        result = {};
        result.algo.data[0] = number;
        result.workspaceSize = i == 1 ? library.workspace_of_two : 0;
        if (number == library.unusable) result.state = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return library.refuses_heuristic ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

inline const gemm::CublasLt kLibrary = {
    .Create = [](cublasLtHandle_t* h) { return make(h, "Create"); },
    .Destroy = [](cublasLtHandle_t h) { return destroy(h); },
    .Matmul = fake_matmul,
    .MatmulAlgoGetHeuristic = fake_heuristic,
    .MatmulAlgoCheck =
        [](cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo,
           cublasLtMatmulHeuristicResult_t* result) {
            result->workspaceSize = algo->data[0] == 2 ? library.workspace_of_two : 0;
            return algo->data[0] >= library.checks_until ? CUBLAS_STATUS_NOT_SUPPORTED
                                                         : CUBLAS_STATUS_SUCCESS;
        },
    .MatmulAlgoConfigGetAttribute =
        [](const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
           size_t bytes, size_t* written) {
            if (library.failing == "MatmulAlgoConfigGetAttribute" || bytes != sizeof(std::int32_t))
                return CUBLAS_STATUS_INVALID_VALUE;
            const auto [number, parts] = kernel_of(algo->data[0]);
            const std::int32_t said = attribute == CUBLASLT_ALGO_CONFIG_ID ? number : parts;
            std::memcpy(value, &said, bytes);
            *written = bytes;
            return CUBLAS_STATUS_SUCCESS;
        },
    .GetVersion = []() -> size_t { return 130002; },
    .MatmulDescCreate = [](cublasLtMatmulDesc_t* d, cublasComputeType_t,
                           cudaDataType_t) { return make(d, "MatmulDescCreate"); },
    .MatmulDescDestroy = [](cublasLtMatmulDesc_t d) { return destroy(d); },
    .MatmulDescSetAttribute =
        [](cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t attribute, const void* value,
           size_t bytes) { return describe(d, attribute, value, bytes, "MatmulDescSetAttribute"); },
    .MatrixLayoutCreate =
        [](cublasLtMatrixLayout_t* l, cudaDataType_t type, std::uint64_t rows, std::uint64_t columns,
           std::int64_t stride) {
            const cublasStatus_t status = make(l, "MatrixLayoutCreate");
            if (status == CUBLAS_STATUS_SUCCESS) {
                const char* name = type == CUDA_R_16BF      ? "bf16"
                                   : type == CUDA_R_16F     ? "fp16"
                                   : type == CUDA_R_8F_E4M3 ? "e4m3"
                                   : type == CUDA_R_8F_E5M2 ? "e5m2"
                                   : type == CUDA_R_32F     ? "fp32"
                                                            : "another";
                described(*l).layout = fmt::format("{} {}x{}/{}", name, rows, columns, stride);
            }
            return status;
        },
    .MatrixLayoutDestroy = [](cublasLtMatrixLayout_t l) { return destroy(l); },
    .MatmulPreferenceCreate = [](cublasLtMatmulPreference_t* p) { return make(p, "MatmulPreferenceCreate"); },
    .MatmulPreferenceDestroy = [](cublasLtMatmulPreference_t p) { return destroy(p); },
    .MatmulPreferenceSetAttribute =
        [](cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
           size_t bytes) {
            // The library refuses a size of another width than the attribute's.
            const bool is_size = attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            if (bytes != (is_size ? sizeof(std::uint64_t) : sizeof(std::uint32_t)))
                return CUBLAS_STATUS_INVALID_VALUE;
            return describe(p, attribute, value, bytes, "MatmulPreferenceSetAttribute");
        },
    .GetStatusString = [](cublasStatus_t) { return "a status"; },
};

// The library and a CUDA in place, with memory of the device for operands.
struct WithCublaslt : testing::Test {
    WithCublaslt() {
        library = {};
        gemm::CublasLt::replace(&kLibrary);
    }
    ~WithCublaslt() override {
        context.reset();
        gemm::CublasLt::replace(nullptr);
    }

    // out[m, 512] of k = 512, so 0.5 million operations a row.
    Gemm product(std::int64_t m) {
        Gemm op{};
        op.a = Tensor(memory.data(), DType::bf16, {m, 512}, kFakeDevice);
        op.b = Tensor(memory.data(), DType::bf16, {512, 512}, kFakeDevice);
        op.out = Tensor(memory.data(), DType::bf16, {m, 512}, kFakeDevice);
        return op;
    }
    std::string how(const Gemm& op) {
        const Readiness ready = gemm::cublaslt_prepare(op, *context);
        return ready.reason != nullptr ? ready.reason : ready.how;
    }

    FakeCuda cuda;
    Buffer memory{kFakeDevice, 1 << 23};
    std::optional<Context> context{kFakeDevice};
};

}  // namespace weft::test
