// A CUDA runtime of two devices on the host: tests see which one was selected for what, in which order.
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/cuda_api.h"
#include "weft/error.h"

namespace weft::test {

// In place while it lives; one at a time. Tests use device 1: what is known of a device is kept for the whole process, and
// device 0 may be a real one. `calls` names what was asked with the device selected then: "allocate on 1".
class FakeCuda {
   public:
    FakeCuda() {
        state() = {};
        cuda::replace_api(&api());
    }
    ~FakeCuda() { cuda::replace_api(nullptr); }
    FakeCuda(const FakeCuda&) = delete;
    FakeCuda& operator=(const FakeCuda&) = delete;

    struct State {
        int selected = 0;
        bool capturing = false;
        std::vector<std::string> calls;
        std::function<double()> time_us = [] { return 1.0; };  // what a measurement says
        std::vector<std::size_t> allocated;                    // bytes, one after another
        bool full = false;                                     // no memory is left
    };
    static State& state() {
        static State s;
        return s;
    }
    static std::vector<std::string>& calls() { return state().calls; }
    static void note(const char* what) {
        calls().push_back(std::string(what) + " on " + std::to_string(state().selected));
    }

   private:
    static cuda::Properties properties(int index) {
        return {"Fake H200 " + std::to_string(index), 90, 131, 226 * 1024, 229 * 1024, 61 << 20};
    }
    static void select(int device) {
        if (device < 0 || device > 1) throw Error(ErrorCode::cuda, "", "", "no such device");
        state().selected = device;
    }
    static std::shared_ptr<void> capture(void*, const std::function<void()>& work, int& nodes) {
        note("capture");
        state().capturing = true;
        work();
        state().capturing = false;
        nodes = 1;
        return std::make_shared<int>();
    }
    static double time_us(void*, const std::function<void()>& work, const std::function<void()>& during) {
        note("time");
        work();
        if (during) during();
        return state().time_us();
    }
    static const cuda::Api& api() {
        static const cuda::Api kApi = {
            .device_count = []() noexcept { return 2; },
            .properties = properties,
            .bus_id = [](int) { return std::string("00000000:00:00.0"); },
            .selected = [] { return state().selected; },
            .select = select,
            .allocate =
                [](std::size_t bytes) {
                    note("allocate");
                    if (state().full) throw Error(ErrorCode::cuda, "", "", "out of memory");
                    state().allocated.push_back(bytes);
                    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
                },
            .release =
                [](void* data) noexcept {
                    note("release");
                    std::free(data);
                },
            .copy =
                [](void* to, const void* from, std::size_t bytes) {
                    note("copy");
                    std::memcpy(to, from, bytes);
                },
            .fill =
                [](void* data, int byte, std::size_t bytes) {
                    note("fill");
                    std::memset(data, byte, bytes);
                },
            .synchronize = [](void*) { note("synchronize"); },
            .is_capturing = [](void*) { return state().capturing; },
            .make_stream =
                [] {
                    note("make_stream");
                    return std::shared_ptr<void>(std::make_shared<int>());
                },
            .capture = capture,
            .launch_graph = [](void*, void*) { note("launch_graph"); },
            .time_us = time_us,
        };
        return kApi;
    }
};

}  // namespace weft::test
