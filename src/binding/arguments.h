// Packed arguments of tvm-ffi as an op's struct.
#pragma once

#include <tvm/ffi/function.h>

#include <cstddef>
#include <vector>

#include "weft/contract.h"

namespace weft::binding {

// Throws the error of a call as a Python exception with its message: TypeError where the field at fault is
// missing, no tensor, or of a dtype that it doesn't take; else ValueError; NotImplementedError where every
// implementation declines.
[[noreturn]] void rethrow(const Error& error, const Contract& contract, const void* op);

// An op's struct, filled from the fields in the contract's order (None: absent), then the options in theirs
// (None, or left out: the default; a choice by its word or its number).
class Call {
   public:
    // All absent and default.
    explicit Call(const Contract& contract);
    // Throws, as a Python exception, what has no place in the contract.
    void read(tvm::ffi::PackedArgs args);
    // The same with one tensor for each of `fields` (of one that comes twice the last counts).
    void read(const std::vector<const Field*>& fields, tvm::ffi::PackedArgs tensors,
              tvm::ffi::PackedArgs options);
    // Throws weft's error as the Python exception that fits it, with the contract's message.
    [[noreturn]] void rethrow(const Error& error) const { binding::rethrow(error, contract_, storage_); }

    const void* op() const { return storage_; }
    Device device() const;  // of the first field that is present
    // Takes the tensors for another device's, which must be able to read their memory: the CPU's for the emulator's.
    void move(Device device);

    static constexpr std::size_t kBytes = 4096;

   private:
    void set(const Option& option, const tvm::ffi::AnyView& argument);

    const Contract& contract_;
    alignas(std::max_align_t) std::byte storage_[kBytes];
};

}  // namespace weft::binding
