// The table of the CUDA runtime (WEFT_HAS_CUDA), or of its absence; the device that is selected.
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

int device_count() noexcept {
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

int selected() {
    int device = 0;
    require(cudaGetDevice(&device), "asking for the device");
    return device;
}

void select(int device) { require(cudaSetDevice(device), "selecting the device"); }

void* allocate(std::size_t bytes) {
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

std::shared_ptr<void> make_stream() {
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

}  // namespace
}  // namespace weft::cuda

#else

namespace weft::cuda {
namespace {

[[noreturn]] void absent() { throw Error(ErrorCode::cuda, "", "", "weft was built without CUDA"); }

int device_count() noexcept { return 0; }
Properties properties(int) { absent(); }
std::string bus_id(int) { absent(); }
int selected() { absent(); }
void select(int) { absent(); }
void* allocate(std::size_t) { absent(); }
void release(void*) noexcept {}
void copy(void*, const void*, std::size_t) { absent(); }
void fill(void*, int, std::size_t) { absent(); }
void synchronize(void*) { absent(); }
bool is_capturing(void*) { absent(); }
std::shared_ptr<void> make_stream() { absent(); }
std::shared_ptr<void> capture(void*, const std::function<void()>&, int&) { absent(); }
void launch_graph(void*, void*) { absent(); }
double time_us(void*, const std::function<void()>&, const std::function<void()>&) { absent(); }

}  // namespace
}  // namespace weft::cuda

#endif

namespace weft::cuda {
namespace {

constexpr Api kOwn = {
    device_count, properties,  bus_id,       selected,    select,  allocate,     release, copy,
    fill,         synchronize, is_capturing, make_stream, capture, launch_graph, time_us,
};
const Api* current = &kOwn;

}  // namespace

const Api& api() { return *current; }

void replace_api(const Api* other) { current = other != nullptr ? other : &kOwn; }

DeviceGuard::DeviceGuard(Device device) {
    if (device.type != DeviceType::cuda) return;
    const int before = api().selected();
    if (before == device.index) return;
    api().select(device.index);
    before_ = before;
}

DeviceGuard::~DeviceGuard() {
    if (before_ < 0) return;
    try {
        api().select(before_);
    } catch (const Error&) {  // it was selected before; a destructor has nobody to tell
    }
}

}  // namespace weft::cuda
