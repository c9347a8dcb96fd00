// Finding and loading OpenBLAS.
#include "ops/gemm/openblas_library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace weft::gemm {
namespace {

Sgemm load() {
    const char* chosen = std::getenv("WEFT_OPENBLAS");
    void* library = dlopen(chosen != nullptr ? chosen : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return library == nullptr ? nullptr : reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
}

}  // namespace

Sgemm find_sgemm() {
    static const Sgemm kSgemm = load();
    return kSgemm;
}

}  // namespace weft::gemm
