// What calls on one stream share: the stream, scratch memory, vendor handles, cached plans.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/device_info.h"
#include "weft/stream.h"

namespace weft {

class Plans;

// One a stream or a thread; not thread-safe, and there is no global one. Constructing it allocates nothing.
// Scratch grows on demand, but never while the stream is being captured: run once before capturing.
class Context {
   public:
    explicit Context(Device device = kCpu, Stream stream = {});
    ~Context();
    Context(Context&&) noexcept;
    Context& operator=(Context&&) noexcept;

    Device device() const { return device_; }
    Stream stream() const { return stream_; }
    // Work queued before keeps its stream; scratch is shared.
    void set_stream(Stream stream) { stream_ = stream; }
    const DeviceInfo& info() const { return *info_; }
    // Dispatch as if the device were this one (tests, `explain`); it must outlive the context.
    void set_info(const DeviceInfo& info) { info_ = &info; }

    // Dispatch without an implementation, by name ("cublaslt"): to compare another with it.
    void avoid(std::string implementation) { avoided_.push_back(std::move(implementation)); }
    bool avoids(const std::string& implementation) const {
        for (const std::string& name : avoided_) {
            if (name == implementation) return true;
        }
        return false;
    }

    // Whether an implementation may time its choices at a problem's first call, which then waits, allocates and writes
    // over outputs: off, so that calls do none of that. What it finds goes into `plans`.
    void set_tuning(bool tuning) { tuning_ = tuning; }
    bool tuning() const { return tuning_; }
    // Choices that were timed: the library's (of one that times none), or of the file that WEFT_PLANS names; and its own.
    Plans& plans();

    // Scratch of at least `bytes`, 256-byte aligned, valid until the next call that asks for more. One call's
    // scratch is the next call's on the same stream. Throws where growth is needed during capture.
    void* scratch(std::size_t bytes);
    // The most bytes that were asked of scratch since the last time of asking: what lies behind them is no call's.
    std::size_t take_scratch_asked() { return std::exchange(scratch_asked_, 0); }
    // Waits for the stream where scratch was ever taken: then the context can go without freeing memory that queued
    // work still uses. Destroying it does not wait, since the stream may be gone by then.
    void finish();

    // The context's own T, made on first use: a vendor handle, a plan cache. T is the implementation's type.
    template <class T>
    T& slot() {
        auto& entry = slots_[std::type_index(typeid(T))];
        if (!entry) entry = std::make_shared<T>();
        return *static_cast<T*>(entry.get());
    }

   private:
    Device device_;
    Stream stream_;
    const DeviceInfo* info_;
    std::vector<std::string> avoided_;
    bool tuning_ = false;
    std::shared_ptr<Plans> plans_;
    void* scratch_ = nullptr;
    std::size_t scratch_bytes_ = 0;
    std::unordered_map<std::type_index, std::shared_ptr<void>> slots_;
    std::size_t scratch_asked_ = 0;
};

}  // namespace weft
