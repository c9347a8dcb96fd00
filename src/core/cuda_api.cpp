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

std::string bus_id(int index) {
    char text[32] = {};
    require(cudaDeviceGetPCIBusId(text, sizeof(text), index), "reading the device's bus id");
    return text;
}

int select_device(int index) {
    int before = index;
    require(cudaGetDevice(&before), "asking for the device");
    if (before != index) require(cudaSetDevice(index), "selecting the device");
    return before;
}

void restore_device(int index) noexcept { cudaSetDevice(index); }

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
    require(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status),
            "asking for the capture status");
    return status != cudaStreamCaptureStatusNone;
}

std::shared_ptr<void> make_stream(int index) {
    require(cudaSetDevice(index), "selecting the device");
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
    return {stream, [](void* s) { cudaStreamDestroy(static_cast<cudaStream_t>(s)); }};
}

std::shared_ptr<void> capture(void* stream, const std::function<void()>& work, int& nodes) {
    auto* s = static_cast<cudaStream_t>(stream);
    require(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "beginning a capture");
    cudaGraph_t graph = nullptr;
    try {
        work();
    } catch (...) {
        cudaStreamEndCapture(s, &graph);  // leave the stream usable
        if (graph != nullptr) cudaGraphDestroy(graph);
        throw;
    }
    require(cudaStreamEndCapture(s, &graph), "ending a capture");
    const std::shared_ptr<void> recorded(graph,
                                         [](void* g) { cudaGraphDestroy(static_cast<cudaGraph_t>(g)); });
    std::size_t count = 0;
    require(cudaGraphGetNodes(graph, nullptr, &count), "counting a graph's nodes");
    nodes = static_cast<int>(count);
    cudaGraphExec_t executable = nullptr;
    require(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
    return {executable, [](void* e) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(e)); }};
}

void launch_graph(void* graph, void* stream) {
    require(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), static_cast<cudaStream_t>(stream)),
            "launching a graph");
}

double time_us(void* stream, const std::function<void()>& work, const std::function<void()>& during) {
    struct Event {
        Event() { require(cudaEventCreate(&handle), "making an event"); }
        ~Event() { cudaEventDestroy(handle); }
        Event(const Event&) = delete;
        Event& operator=(const Event&) = delete;
        cudaEvent_t handle = nullptr;
    };
    auto* s = static_cast<cudaStream_t>(stream);
    Event begin, end;
    require(cudaEventRecord(begin.handle, s), "recording an event");
    work();
    require(cudaEventRecord(end.handle, s), "recording an event");
    if (during) during();
    require(cudaEventSynchronize(end.handle), "waiting for an event");
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, begin.handle, end.handle), "reading events");
    return static_cast<double>(milliseconds) * 1000;
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
std::string bus_id(int) { absent(); }
int select_device(int) { absent(); }
void restore_device(int) noexcept {}
void* allocate(int, std::size_t) { absent(); }
void release(void*) noexcept {}
void copy(void*, const void*, std::size_t) { absent(); }
void fill(void*, int, std::size_t) { absent(); }
void synchronize(void*) { absent(); }
bool is_capturing(void*) { absent(); }
std::shared_ptr<void> make_stream(int) { absent(); }
std::shared_ptr<void> capture(void*, const std::function<void()>&, int&) { absent(); }
void launch_graph(void*, void*) { absent(); }
double time_us(void*, const std::function<void()>&, const std::function<void()>&) { absent(); }

}  // namespace weft::cuda

#endif
