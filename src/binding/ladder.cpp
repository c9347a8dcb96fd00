// The ladder's rungs for Python, once libweft_ladder is loaded: weft.ladder.rungs, and weft.ladder.run(name, fields...,
// options...). On CPU tensors a rung runs in the emulator.
#include "core/ladder.h"

#include <fmt/format.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <nlohmann/json.hpp>

#include "binding/arguments.h"
#include "binding/contexts.h"

namespace weft::binding {
namespace {

// By name, with the op and the lesson's parts that a docstring wants.
tvm::ffi::String rungs() {
    auto all = nlohmann::json::array();
    for (const ladder::Rung* rung : ladder::rungs()) {
        all.push_back({{"name", rung->name},
                       {"op", rung->entry.contract().name()},
                       {"title", rung->title()},
                       {"lesson", rung->lesson},
                       {"wrong", !rung->part("Wrong").empty()}});
    }
    return tvm::ffi::String(all.dump());
}

void run_rung(tvm::ffi::PackedArgs args) {
    const auto name = args[0].cast<tvm::ffi::String>();
    const ladder::Rung* rung = ladder::find(name.c_str());
    if (rung == nullptr)
        throw tvm::ffi::Error("ValueError", fmt::format("no rung is named '{}'", name.c_str()), "");
    Call call(rung->entry.contract());
    call.read(args.Slice(1));
    if (call.device().type == DeviceType::cpu) call.move({DeviceType::emulator, 0});
    run(rung->entry, call);
}

TVM_FFI_STATIC_INIT_BLOCK() {
    tvm::ffi::Function::SetGlobal("weft.ladder.rungs", tvm::ffi::Function::FromTyped(rungs));
    tvm::ffi::Function::SetGlobal(
        "weft.ladder.run",
        tvm::ffi::Function::FromPacked([](tvm::ffi::PackedArgs args, tvm::ffi::Any*) { run_rung(args); }));
}

}  // namespace
}  // namespace weft::binding
