// What the emulator's tests share. The files that on_gpu.cu includes run on a GPU too: a model is only as
// good as its agreement with the hardware.
#pragma once

#if !defined(__CUDACC__)
#define WEFT_EMULATOR 1
#endif

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kit/launch.h"
#include "weft/error.h"

namespace weft::inline WEFT_TARGET::test {

#if defined(__CUDACC__)

// Skips where there is no GPU, or an older one than the test needs.
class Gpu : public testing::Test {
   protected:
    static int architecture() {
        int major = 0, minor = 0;
        if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) return 0;
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
        return 10 * major + minor;
    }
};

#define ON_BOTH(needs, name)                                                      \
    class name : public test::Gpu {                                               \
       protected:                                                                 \
        void SetUp() override {                                                   \
            if (architecture() < (needs)) GTEST_SKIP() << "needs SM " << (needs); \
        }                                                                         \
    };                                                                            \
    TEST_F(name, OnGpu)

inline void in_several_orders(const std::function<void()>& run) { run(); }

// Memory that the target's kernels reach.
template <typename T>
class Buffer {
   public:
    explicit Buffer(const std::vector<T>& values) : size_(values.size()) {
        EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), size_ * sizeof(T)), cudaSuccess);
        EXPECT_EQ(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyDefault), cudaSuccess);
    }
    explicit Buffer(size_t size, T value = {}) : Buffer(std::vector<T>(size, value)) {}
    ~Buffer() { cudaFree(data_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    T* data() { return data_; }
    std::vector<T> values() const {
        std::vector<T> copy(size_);
        EXPECT_EQ(cudaMemcpy(copy.data(), data_, size_ * sizeof(T), cudaMemcpyDefault), cudaSuccess);
        return copy;
    }
    T value() const { return values().at(0); }

   private:
    T* data_ = nullptr;
    size_t size_;
};

#else

#if WEFT_ASAN
inline constexpr bool kAsan = true;
#else
inline constexpr bool kAsan = false;
#endif
#if WEFT_TSAN
inline constexpr bool kTsan = true;
#else
inline constexpr bool kTsan = false;
#endif

// A test that begins with this is skipped in the other builds, which cannot see its fault.
#define ONLY_IN(build) \
    if (!(build)) GTEST_SKIP() << "needs another sanitizer build"

// Whether a kernel has its planted fault.
enum Fault { kNone, kPlanted };

struct Floats {
    float values[32];
};

struct First {
    int value;
};

// Messages that say whose kernel, block and thread it was, and what.
inline auto names(const char* kernel, const char* what) {
    using testing::HasSubstr;
    return testing::AllOf(HasSubstr(std::string("kernel '") + kernel + "', block ("), HasSubstr("thread ("),
                          HasSubstr(what));
}

inline auto races(const char* kernel) {
    return testing::AllOf(testing::HasSubstr(kernel), testing::HasSubstr("data races"));
}

// The message of the fault that `run` throws, or an empty string.
inline std::string fault_of(const std::function<void()>& run) {
    try {
        run();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::emulator_fault) << error.what();
        return error.what();
    }
    return "";
}

// Sets the order and the poison back when a test ends.
class Emulator : public testing::Test {
   protected:
    ~Emulator() override {
        emulator::set_order(0);
        emulator::set_poison(0xff);
    }
};

#define ON_BOTH(needs, name) TEST_F(Emulator, name)

// Calls `run` in the natural order and in some random ones.
inline void in_several_orders(const std::function<void()>& run) {
    for (const uint64_t seed : {0, 1, 2, 77}) {
        SCOPED_TRACE("order " + std::to_string(seed));
        emulator::set_order(seed);
        run();
    }
    emulator::set_order(0);
}

// Memory that the target's kernels reach.
template <typename T>
class Buffer {
   public:
    explicit Buffer(const std::vector<T>& values) : values_(values) {}
    explicit Buffer(size_t size, T value = {}) : values_(size, value) {}

    T* data() { return values_.data(); }
    const std::vector<T>& values() const { return values_; }
    T value() const { return values_.at(0); }

   private:
    std::vector<T> values_;
};

// What `run` returns with either poison.
template <typename Run>
auto with_two_poisons(Run run) {
    emulator::set_poison(0xff);
    auto first = run();
    emulator::set_poison(0x2a);
    auto second = run();
    return std::pair(first, second);
}

#endif

}  // namespace weft::inline WEFT_TARGET::test

#if !defined(__CUDACC__)
namespace weft::inline WEFT_TARGET {
using test::Emulator;  // the name of the suite
}
#endif
