// A loop over independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace weft {

// Calls work(0) … work(count - 1), each once, in any order; throws the first thing that one of them threw.
template <class Work>
void parallel_for(std::size_t count, std::size_t threads, Work work) {
    if (threads <= 1 || count <= 1) {
        for (std::size_t i = 0; i < count; ++i) work(i);
        return;
    }
    std::atomic<std::size_t> next{0};
    std::exception_ptr thrown;
    std::mutex mutex;
    const auto run = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            try {
                work(i);
            } catch (...) {
                const std::scoped_lock lock(mutex);
                if (!thrown) thrown = std::current_exception();
            }
        }
    };
    std::vector<std::thread> pool;
    for (std::size_t i = 1; i < std::min(threads, count); ++i) pool.emplace_back(run);
    run();
    for (std::thread& thread : pool) thread.join();
    if (thrown) std::rethrow_exception(thrown);
}

}  // namespace weft
