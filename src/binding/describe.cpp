// What the library knows, as JSON: weft.version, weft.contracts, weft.case, weft.check, weft.generate.
#include "core/describe.h"

#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <optional>
#include <string>

#include "binding/arguments.h"
#include "verify/generate.h"

namespace weft {
extern const char* const kVersion;  // defined by the build, all three
extern const char* const kCudaVersion;
extern const char* const kCudaArchitectures;
}  // namespace weft

namespace weft::binding {
namespace {

template <class Work>
tvm::ffi::String guarded(Work work) {
    try {
        return tvm::ffi::String(work().dump());
    } catch (const Error& error) {
        throw tvm::ffi::Error("ValueError", error.what(), "");
    }
}

// Every op's description, a list.
tvm::ffi::String contracts() {
    return guarded([] {
        auto all = nlohmann::json::array();
        for (const OpEntry* entry : all_ops()) all.push_back(describe(*entry));
        return all;
    });
}

// The case that a line means, with the outputs that it leaves open inferred from the inputs.
tvm::ffi::String parse_case(const std::string& line) {
    return guarded([&] { return describe(Case::parse(line)); });
}

// Throws what the contract says of a case, without memory.
void check_case(const std::string& line) {
    std::optional<Case> c;
    guarded([&] {
        c = Case::parse(line);
        return nlohmann::json();
    });
    c->with_call(kCpu, [&](const void* call) {
        try {
            c->contract().check(call);
        } catch (const Error& error) {
            rethrow(error, c->contract(), call);
        }
    });
}

// A random case of an op that some implementation on the CPU takes; null where none was found.
tvm::ffi::String generate_case(const std::string& op, std::int64_t seed) {
    return guarded([&]() -> nlohmann::json {
        const OpEntry* entry = find_op(op);
        if (entry == nullptr) throw Error(ErrorCode::invalid_argument, op, "", "no such op");
        Random random(static_cast<std::uint64_t>(seed));
        const auto c = generate(*entry, device_info(kCpu), random, {});
        return c ? describe(*c) : nlohmann::json();
    });
}

TVM_FFI_STATIC_INIT_BLOCK() {
    tvm::ffi::Function::SetGlobal("weft.version",
                                  tvm::ffi::Function::FromTyped([] { return tvm::ffi::String(kVersion); }));
    tvm::ffi::Function::SetGlobal(
        "weft.cuda_version", tvm::ffi::Function::FromTyped([] { return tvm::ffi::String(kCudaVersion); }));
    tvm::ffi::Function::SetGlobal("weft.cuda_architectures", tvm::ffi::Function::FromTyped([] {
                                      return tvm::ffi::String(kCudaArchitectures);
                                  }));
    tvm::ffi::Function::SetGlobal("weft.contracts", tvm::ffi::Function::FromTyped(contracts));
    tvm::ffi::Function::SetGlobal("weft.case", tvm::ffi::Function::FromTyped(parse_case));
    tvm::ffi::Function::SetGlobal("weft.check", tvm::ffi::Function::FromTyped(check_case));
    tvm::ffi::Function::SetGlobal("weft.generate", tvm::ffi::Function::FromTyped(generate_case));
}

}  // namespace
}  // namespace weft::binding
