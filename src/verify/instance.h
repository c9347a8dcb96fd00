// A case with memory: every tensor in a buffer of its own, inputs filled, outputs poisoned.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/elements.h"
#include "core/sanitizer.h"
#include "verify/draw.h"
#include "weft/case.h"
#include "weft/memory.h"

namespace weft {

class Instance {
   public:
    using Contents = std::vector<std::vector<std::byte>>;  // by field; empty where absent or shared

    // The same inputs for the same case, seed and values wherever the memory is. `poison` fills outputs and guards.
    // Calls that run on a device, which can't check elements first, may have some that break a rule (Values::special).
    Instance(const Case& c, Device device, std::uint64_t seed, Values values, int poison = 0xff)
        : Instance(c, device, seed, Drawing{values, device.type != DeviceType::cpu}, poison) {}
    Instance(const Case& c, Device device, std::uint64_t seed, Drawing drawing, int poison = 0xff);
    // The same contents once more, over `footprint()` bytes of the caller's, aligned to 256.
    Instance(const Instance& like, void* memory);

    const void* call() const { return call_.data(); }
    void run(Context& context) const;  // checks, dispatches, launches, waits
    void reset();  // outputs back to poison, in-out fields and what an output shares to their input

    Device device() const { return device_; }
    const Case& source() const { return case_; }
    // Copies a field's memory as it is now, guards included, to the host. Empty where absent or shared.
    void read(std::size_t field, std::vector<std::byte>& into) const;
    const std::vector<std::byte>& initial(std::size_t field) const { return (*initial_)[field]; }
    std::shared_ptr<const Contents> initial() const { return initial_; }
    void* memory(std::size_t field) const { return memory_[field]; }  // guards included
    std::size_t footprint() const;
    // Where the field's element 0 lies in those bytes.
    std::size_t first_byte(std::size_t field) const;

    static constexpr std::size_t kGuard = 256;  // bytes of poison on either side

   private:
    void bind();
    void upload(std::size_t field);
    // AddressSanitizer has red zones of its own around host memory, which poison would keep it from.
    std::size_t guard() const { return kSeesAddresses && device_.type != DeviceType::cuda ? 0 : kGuard; }

    Case case_;
    Device device_;
    int poison_;
    std::vector<Buffer> buffers_;  // none where the memory is the caller's
    std::vector<void*> memory_;    // by field
    std::shared_ptr<const Contents> initial_;
    std::vector<std::max_align_t> call_;
};

}  // namespace weft
