// weft.call(words, tensors...): a call whose words say which field each tensor is. For frameworks that hand
// over a list of buffers and a string, as XLA does.
#include <tvm/ffi/function.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "binding/arguments.h"
#include "binding/contexts.h"
#include "weft/case.h"

namespace weft::binding {
namespace {

// "rms_norm x weight out eps=1e-05 rounding=eager": the op, a field for each tensor, the options.
struct Plan {
    const OpEntry* op = nullptr;
    std::vector<const Field*> fields;
    std::vector<double> options;
};

Plan parse(std::string_view text) {
    std::string options;
    std::vector<std::string> names;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (options.empty() || word.find('=') != std::string_view::npos) {
            options += std::string(word) + " ";
        } else {
            names.emplace_back(word);
        }
    }
    const Case c = Case::parse(options);
    Plan plan{&c.op(), {}, c.options};
    for (const std::string& name : names) {
        const int field = c.contract().find_field(name);
        if (field < 0) throw Error(ErrorCode::invalid_argument, c.contract().name(), name, "no such field");
        plan.fields.push_back(&c.contract().fields()[static_cast<std::size_t>(field)]);
    }
    return plan;
}

void call(tvm::ffi::PackedArgs args) {
    thread_local std::unordered_map<std::string, Plan> plans;
    const std::string words = args[0].cast<std::string>();
    auto found = plans.find(words);
    if (found == plans.end()) found = plans.emplace(words, parse(words)).first;
    const Plan& plan = found->second;
    Call call(plan.op->contract());
    try {
        call.read(plan.fields, plan.options, args.Slice(1));
        detail::run(*plan.op, call.op(), context_for(call.device()));
    } catch (const Error& error) {
        call.rethrow(error);
    }
}

TVM_FFI_STATIC_INIT_BLOCK() {
    tvm::ffi::Function::SetGlobal(
        "weft.call", tvm::ffi::Function::FromPacked([](tvm::ffi::PackedArgs args, tvm::ffi::Any*) {
            try {
                call(args);
            } catch (const Error& error) {
                throw tvm::ffi::Error("ValueError", error.what(), "");
            }
        }));
}

}  // namespace
}  // namespace weft::binding
