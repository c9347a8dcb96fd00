// The CUDA runtime (WEFT_HAS_CUDA), or its absence.
#include "core/cuda_api.h"

#include "weft/error.h"

#if WEFT_HAS_CUDA
#include <cuda_runtime_api.h>

namespace weft::cuda {
namespace {

void require(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    throw Error(ErrorCode::cuda, "", "", std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace

bool compiled() { return true; }

int device_count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    cudaGetLastError();  // no driver is an answer, not a failure to report later
    return 0;
}

Properties properties(int index) {
    cudaDeviceProp p{};
    require(cudaGetDeviceProperties(&p, index), "reading the device's properties");
    Properties out;
    out.name = p.name;
    out.arch = p.major * 10 + p.minor;
    out.sms = p.multiProcessorCount;
    out.shared_per_block = static_cast<int>(p.sharedMemPerBlockOptin);
    out.shared_per_sm = static_cast<int>(p.sharedMemPerMultiprocessor);
    out.l2_bytes = p.l2CacheSize;
    return out;
}

void* allocate(int index, std::size_t bytes) {
    require(cudaSetDevice(index), "selecting the device");
    void* data = nullptr;
    require(cudaMalloc(&data, bytes), "allocating device memory");
    return data;
}

void release(void* data) noexcept { cudaFree(data); }

void copy(void* to, const void* from, std::size_t bytes) {
    require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying memory");
    require(cudaStreamSynchronize(nullptr), "copying memory");
}

void fill(void* data, int byte, std::size_t bytes) {
    require(cudaMemset(data, byte, bytes), "filling memory");
    require(cudaStreamSynchronize(nullptr), "filling memory");
}

void synchronize(void* stream) {
    require(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "waiting for the stream");
}

bool is_capturing(void* stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    require(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status), "asking for the capture status");
    return status != cudaStreamCaptureStatusNone;
}

}  // namespace weft::cuda

#else

namespace weft::cuda {
namespace {

[[noreturn]] void absent() { throw Error(ErrorCode::cuda, "", "", "weft was built without CUDA"); }

}  // namespace

bool compiled() { return false; }
int device_count() { return 0; }
Properties properties(int) { absent(); }
void* allocate(int, std::size_t) { absent(); }
void release(void*) noexcept {}
void copy(void*, const void*, std::size_t) { absent(); }
void fill(void*, int, std::size_t) { absent(); }
void synchronize(void*) { absent(); }
bool is_capturing(void*) { absent(); }

}  // namespace weft::cuda

#endif
