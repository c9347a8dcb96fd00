// Graph, OwnedStream and timing, through the CUDA runtime where there is one.
#include "weft/graph.h"

#include <chrono>

#include "core/cuda_api.h"
#include "weft/memory.h"

namespace weft {

Graph::Graph(Context& context, std::function<void()> work) : context_(&context), work_(std::move(work)) {
    if (context.device().type != DeviceType::cuda) return;
    executable_ = cuda::capture(context.stream().handle, work_, launches_);
}

void Graph::replay() const {
    if (executable_ == nullptr) return work_();
    cuda::launch_graph(executable_.get(), context_->stream().handle);
}

OwnedStream::OwnedStream(Device device) {
    if (device.type == DeviceType::cuda) handle_ = cuda::make_stream(device.index);
}

double time_us(Context& context, const std::function<void()>& work, const std::function<void()>& during) {
    if (context.device().type == DeviceType::cuda)
        return cuda::time_us(context.stream().handle, work, during);
    const auto begin = std::chrono::steady_clock::now();
    work();
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    if (during) during();
    return us;
}

}  // namespace weft
