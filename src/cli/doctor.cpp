// weft doctor: what is here, and what to do about what isn't.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/select.h"
#include "core/json_text.h"
#include "core/sanitizer.h"
#include "verify/fuzz.h"

namespace weft::cli {
namespace {

struct Finding {
    std::string what;
    bool here;
    std::string detail;  // what was found, or what to do
};

// A shared library's first name that loads; closed again at once.
std::string loadable(std::initializer_list<const char*> names) {
    for (const char* name : names) {
        if (void* library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
            dlclose(library);
            return name;
        }
    }
    return {};
}

Finding driver() {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr)
        return {"CUDA driver", false,
                "libcuda.so.1 can't be loaded: install NVIDIA's driver to run on a GPU"};
    int version = 0;
    if (auto* ask = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"))) ask(&version);
    return {"CUDA driver", true, fmt::format("for CUDA {}.{}", version / 1000, version % 1000 / 10)};
}

Finding gpus() {
    const int count = cuda_device_count();
    if (count == 0)
        return {"GPU", false, "none that this build can use; the emulator and the CPU serve every op"};
    std::string names;
    for (int i = 0; i < count; ++i) {
        const DeviceInfo& d = device_info({DeviceType::cuda, i});
        names += fmt::format("{}{} (sm_{}, {} SMs)", i == 0 ? "" : ", ", d.name, d.arch, d.sms);
    }
    return {"GPU", true, names};
}

Finding kernels() {
#if WEFT_HAS_CUDA
    return {"CUDA kernels", true, "compiled into this build"};
#else
    return {"CUDA kernels", false,
            "this build has none: configure where nvcc is (./weft setup fetches one), then build again"};
#endif
}

std::filesystem::path find_on_path(const std::string& program) {
    const char* path = std::getenv("PATH");
    const std::string all = path == nullptr ? "" : path;
    std::error_code ignored;
    for (std::size_t at = 0; at <= all.size();) {
        const std::size_t end = std::min(all.find(':', at), all.size());
        const auto file = std::filesystem::path(all.substr(at, end - at)) / program;
        if (end > at && std::filesystem::exists(file, ignored)) return file;
        at = end + 1;
    }
    return {};
}

Finding toolkit() {
    std::error_code ignored;
    auto nvcc = find_on_path("nvcc");
    const auto tool = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
    for (const auto& place :
         {std::filesystem::path("/usr/local/cuda/bin/nvcc"), tool / "../../.weft/cuda/bin/nvcc"}) {
        if (nvcc.empty() && std::filesystem::exists(place, ignored)) nvcc = place.lexically_normal();
    }
    if (nvcc.empty())
        return {"nvcc", false, "not found: only building kernels needs it (./weft setup fetches one)"};
    return {"nvcc", true, nvcc.string()};
}

Finding cublaslt() {
    const std::string name = loadable({"libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12"});
    if (name.empty())
        return {"cuBLASLt", false,
                "not loadable: gemm uses weft's own kernels; put its folder on LD_LIBRARY_PATH"};
    return {"cuBLASLt", true, name};
}

Finding emulator() {
#if WEFT_HAS_EMULATOR
    return {"emulator", true, "kernels run on this CPU, checked (--device emulator)"};
#else
    return {"emulator", false,
            "this build has none: it needs Boost.Context and the CUDA headers (./weft setup)"};
#endif
}

Finding sanitizers() {
    if (kSeesAddresses)
        return {"sanitizer", true, "AddressSanitizer and UndefinedBehaviorSanitizer watch this build"};
    if (kSeesRaces)
        return {"sanitizer", true, "ThreadSanitizer watches this build: races in kernels are found"};
    return {"sanitizer", false,
            "none in this build; build/asan/weft and build/tsan/weft have one (./weft build asan)"};
}

Finding openblas() {
    if (loadable({"libopenblas.so.0"}).empty())
        return {"OpenBLAS", false,
                "not loadable: matrix products on the CPU take the reference's loops, slowly"};
    return {"OpenBLAS", true, "the CPU's matrix products use it"};
}

int diagnose(bool json) {
    const std::vector<Finding> findings = {driver(),   gpus(),     kernels(),    toolkit(),
                                           cublaslt(), emulator(), sanitizers(), openblas()};
    nlohmann::json all = nlohmann::json::array();
    std::vector<std::vector<std::string>> rows;
    for (const Finding& f : findings) {
        all.push_back({{"what", f.what}, {"here", f.here}, {"detail", f.detail}});
        rows.push_back({f.here ? "yes" : "no", f.what, f.detail});
    }
    const Device best = devices_here().back();
    if (json) {
        std::cout << json_text(
                         nlohmann::json{
                             {"findings", all}, {"ops", all_ops().size()}, {"device", name(best.type)}},
                         2)
                  << "\n";
    } else {
        std::cout << table(rows)
                  << fmt::format("\n{} ops; commands run on {} unless --device says otherwise\n",
                                 all_ops().size(), device_info(best).name);
    }
    return kPassed;
}

}  // namespace

Command doctor_command() {
    return {"doctor", "Say what this machine and this build have, and what to do about what is missing",
            "Examples:\n  weft doctor\n  weft doctor --json | jq -r .device\n",
            [](CommandLine& line) -> std::function<int()> {
                auto json = std::make_shared<bool>();
                line.add("--json", json.get(), "print JSON");
                return [json] { return diagnose(*json); };
            }};
}

}  // namespace weft::cli
