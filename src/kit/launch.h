// Launches a kernel on either target: the only place that does.
#pragma once

#include <tuple>
#include <utility>

#include "kit/target.h"
#include "weft/error.h"
#include "weft/stream.h"
#include "weft/tensor.h"

namespace weft::inline WEFT_TARGET::kit {

// The device that this compilation's kernels run on.
#if defined(WEFT_EMULATOR)
inline constexpr DeviceType kTarget = DeviceType::emulator;
#else
inline constexpr DeviceType kTarget = DeviceType::cuda;
#endif

struct LaunchShape {
    dim3 grid = 1;
    dim3 block = 1;
    unsigned cluster = 1;       // blocks along x that share their shared memory; SM 9.0 and newer
    bool balanced = false;      // a cluster's blocks go where there is room, not each to an SM of its own
    size_t dynamic_shared = 0;  // bytes
    // May start before the previous kernel of the stream has ended; the kernel must call kit::dependency_wait
    // before it touches memory. Ignored by architectures before SM 9.0.
    bool dependent = false;
};

#if !defined(WEFT_EMULATOR)
namespace detail {

inline void check_launch(const char* name, cudaError_t status) {
    if (status == cudaSuccess) return;
    cudaGetLastError();  // not sticky: the next call is not to blame
    throw Error(ErrorCode::cuda, name, "", cudaGetErrorString(status));
}

// Above 48 KiB of shared memory, static included, and above 8 blocks a cluster a kernel needs leave. Asked once for
// each kernel, device and larger size; the memory of what was asked for is small and direct-mapped, so a collision
// only asks again.
inline void allow(const char* name, const void* kernel, size_t bytes, unsigned cluster) {
    constexpr unsigned kPortable = 8;
    struct Granted {
        const void* kernel;
        int device;
        size_t bytes;
        bool wide;
    };
    static thread_local Granted granted[64] = {};
    if (bytes <= 32 * 1024 && cluster <= kPortable) return;
    int device = 0;
    check_launch(name, cudaGetDevice(&device));
    Granted& entry = granted[(reinterpret_cast<uintptr_t>(kernel) / 16 + static_cast<unsigned>(device)) % 64];
    const bool known = entry.kernel == kernel && entry.device == device;
    if (known && entry.bytes >= bytes && (entry.wide || cluster <= kPortable)) return;
    check_launch(name, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(bytes)));
    if (cluster > kPortable)
        check_launch(name, cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    entry = {kernel, device, bytes, cluster > kPortable};
}

inline void launch(const char* name, const void* kernel, const LaunchShape& shape, Stream stream,
                   void** arguments) {
    allow(name, kernel, shape.dynamic_shared, shape.cluster);
    cudaLaunchAttribute attributes[3];
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.dynamic_shared;
    config.stream = static_cast<cudaStream_t>(stream.handle);
    config.attrs = attributes;
    if (shape.cluster > 1) {
        cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {shape.cluster, 1, 1};
    }
    if (shape.cluster > 1 && shape.balanced) {
        cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
        attribute.val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicyLoadBalancing;
    }
    if (shape.dependent) {
        cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
        attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    check_launch(name, cudaLaunchKernelExC(&config, kernel, arguments));
}

}  // namespace detail
#endif

// Runs `kernel(arguments...)` on `stream`; `name` is for messages. Throws weft::Error where the launch fails.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), const LaunchShape& shape, Stream stream,
            Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "one argument for each parameter of the kernel");
    std::tuple<std::remove_cv_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
#if defined(WEFT_EMULATOR)
    struct Call {
        void (*kernel)(Parameters...);
        const std::tuple<std::remove_cv_t<Parameters>...>* values;
    };
    const Call call{kernel, &values};
    emulator::launch(
        {.name = name,
         .grid = shape.grid,
         .block = shape.block,
         .cluster = shape.cluster,
         .dynamic_shared = shape.dynamic_shared,
         .dependent = shape.dependent,
         .stream = stream.handle},
        [](const void* data) {
            const auto [code, own] = [data] {
                const emulator::Unobserved
                    scope;  // arguments are there before what dependency_wait waits for
                const Call& made = *static_cast<const Call*>(data);
                return std::pair(made.kernel, *made.values);
            }();
            std::apply(code, own);
        },
        &call);
#else
    std::apply(
        [&](auto&... value) {
            void* addresses[] = {static_cast<void*>(&value)..., nullptr};
            detail::launch(name, reinterpret_cast<const void*>(kernel), shape, stream, addresses);
        },
        values);
#endif
}

}  // namespace weft::inline WEFT_TARGET::kit
