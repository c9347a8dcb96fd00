// Graph, OwnedStream and timing, through the CUDA runtime where there is one.
#include "weft/graph.h"

#include <chrono>

#include "core/cuda_api.h"
#include "weft/memory.h"

namespace weft {

Graph::Graph(Context& context, std::function<void()> work) : context_(&context), work_(std::move(work)) {
    if (context.device().type != DeviceType::cuda) return;
    const cuda::DeviceGuard guard(context.device());
    executable_ = cuda::api().capture(context.stream().handle, work_, launches_);
}

void Graph::replay() const {
    if (executable_ == nullptr) return work_();
    const cuda::DeviceGuard guard(context_->device());
    cuda::api().launch_graph(executable_.get(), context_->stream().handle);
}

OwnedStream::OwnedStream(Device device) {
    const cuda::DeviceGuard guard(device);
    if (device.type == DeviceType::cuda) handle_ = cuda::api().make_stream();
}

double time_us(Context& context, const std::function<void()>& work, const std::function<void()>& during) {
    const cuda::DeviceGuard guard(context.device());
    if (context.device().type == DeviceType::cuda)
        return cuda::api().time_us(context.stream().handle, work, during);
    const auto begin = std::chrono::steady_clock::now();
    work();
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    if (during) during();
    return us;
}

}  // namespace weft
