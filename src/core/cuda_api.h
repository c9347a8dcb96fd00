// The little of the CUDA runtime that the core needs, behind plain functions: a build without CUDA has them
// too.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace weft::cuda {

struct Properties {
    std::string name;
    int arch = 0, sms = 0, shared_per_block = 0, shared_per_sm = 0;
    long l2_bytes = 0;
};

bool compiled();     // was weft built with CUDA?
int device_count();  // 0 without a driver
Properties properties(int index);
std::string bus_id(int index);  // "00000000:1B:00.0"
int select_device(int index);   // makes it this thread's, and returns the one before
void restore_device(int index) noexcept;

// Each throws Error(cuda) with the runtime's message.
void* allocate(int index, std::size_t bytes);
void release(void* data) noexcept;
void copy(void* to, const void* from, std::size_t bytes);  // any direction; waits
void fill(void* data, int byte, std::size_t bytes);
void synchronize(void* stream);
bool is_capturing(void* stream);

std::shared_ptr<void> make_stream(int index);
// What `work` queues on `stream`, as an executable graph; `nodes` is how many kernels and copies it has.
std::shared_ptr<void> capture(void* stream, const std::function<void()>& work, int& nodes);
void launch_graph(void* graph, void* stream);
// Microseconds between events before and after `work`; `during` is called once it is queued.
double time_us(void* stream, const std::function<void()>& work, const std::function<void()>& during);

}  // namespace weft::cuda
