// Finding and loading libcublasLt.
#if WEFT_HAS_CUBLASLT
#include "ops/gemm/cublaslt_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "weft/error.h"

namespace weft::gemm {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

std::string soname() { return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR); }

// Where pip puts the library under a site-packages folder.
void add_site_packages(std::vector<std::string>& places, const fs::path& site) {
    places.push_back(site / "nvidia" / ("cu" + std::to_string(CUBLAS_VER_MAJOR)) / "lib" / soname());
    places.push_back(site / "nvidia" / "cublas" / "lib" / soname());
}

void add_python(std::vector<std::string>& places, const fs::path& prefix) {
    std::error_code ignored;
    std::vector<fs::path> pythons;
    for (const auto& entry : fs::directory_iterator(prefix / "lib", ignored)) {
        if (entry.path().filename().string().starts_with("python3")) pythons.push_back(entry.path());
    }
    std::sort(pythons.begin(), pythons.end());
    for (const auto& python : pythons) {
        add_site_packages(places, python / "site-packages");
        add_site_packages(places, python / "dist-packages");
    }
}

// The prefixes of every Python that the shell would find: PyTorch brings the library.
void add_python_on_path(std::vector<std::string>& places) {
    std::stringstream path(environment("PATH"));
    for (std::string folder; std::getline(path, folder, ':');) {
        std::error_code ignored;
        if (fs::exists(fs::path(folder) / "python3", ignored))
            add_python(places, fs::path(folder).parent_path());
    }
}

const CublasLt* replaced = nullptr;

}  // namespace

std::vector<std::string> CublasLt::places() {
    std::vector<std::string> places;
    if (const std::string chosen = environment("WEFT_CUBLASLT"); !chosen.empty()) {
        return {fs::is_directory(chosen) ? (fs::path(chosen) / soname()).string() : chosen};
    }
    places.push_back(soname());
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&CublasLt::find), &self) != 0 && self.dli_fname != nullptr) {
        std::error_code ignored;
        fs::path folder = fs::absolute(self.dli_fname, ignored).parent_path();
        // Beside the library, in the site-packages folder that holds it, in a checkout's set-up folder.
        for (int up = 0; up < 4 && folder.has_relative_path(); ++up, folder = folder.parent_path()) {
            places.push_back(folder / soname());
            add_site_packages(places, folder);
            places.push_back(folder / ".weft" / "cublas" / "lib" / soname());
        }
    }
    for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
        if (const std::string prefix = environment(name); !prefix.empty()) add_python(places, prefix);
    }
    add_python_on_path(places);
    for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
        if (const std::string prefix = environment(name); !prefix.empty()) {
            places.push_back(fs::path(prefix) / "lib64" / soname());
        }
    }
    places.push_back("/usr/local/cuda/lib64/" + soname());
    return places;
}

bool CublasLt::load(const std::vector<std::string>& places) {
    void* handle = nullptr;
    for (const std::string& place : places) {
        handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle != nullptr) break;
    }
    if (handle == nullptr) return false;
    bool complete = true;
    const auto bind = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
        complete = complete && function != nullptr;
    };
#define WEFT_CUBLASLT_BIND(function) bind(function, "cublasLt" #function);
    WEFT_CUBLASLT_FUNCTIONS(WEFT_CUBLASLT_BIND)
#undef WEFT_CUBLASLT_BIND
    return complete;
}

void CublasLt::replace(const CublasLt* other) { replaced = other; }

const CublasLt* CublasLt::find() {
    if (replaced != nullptr) return replaced;
    static CublasLt library;
    static const bool kFound = library.load(places());
    return kFound ? &library : nullptr;
}

const CublasLt& CublasLt::get() {
    const CublasLt* library = find();
    if (library == nullptr) throw Error(ErrorCode::unsupported, "gemm", "", soname() + " was not found");
    return *library;
}

void CublasLt::require(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw Error(ErrorCode::cuda, "gemm", "", std::string(what) + ": " + GetStatusString(status));
}

}  // namespace weft::gemm
#endif
