// Packed arguments of tvm-ffi as an op's struct.
#pragma once

#include <tvm/ffi/function.h>

#include <cstddef>

#include "weft/contract.h"

namespace weft::binding {

// An op's struct, filled from the fields in the contract's order (None: absent), then the options in theirs
// (None, or left out: the default; a choice by its word).
class Call {
   public:
    // All absent and default.
    explicit Call(const Contract& contract);
    // Throws weft::Error for what has no place in the contract.
    void read(tvm::ffi::PackedArgs args);
    // Throws weft's error as the Python exception that fits it, with the contract's message.
    [[noreturn]] void rethrow(const Error& error) const;

    const void* op() const { return storage_; }
    Device device() const;  // of the first field that is present

    static constexpr std::size_t kBytes = 4096;

   private:
    const Contract& contract_;
    alignas(std::max_align_t) std::byte storage_[kBytes];
};

}  // namespace weft::binding
