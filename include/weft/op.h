// Running an op: check it against its contract, ask its implementations in order, launch the first that
// accepts.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/context.h"
#include "weft/contract.h"
#include "weft/oracle.h"

namespace weft {

// Whether a context's library takes a call, by which choice of its own: "timed", "the heuristic's first".
struct Readiness {
    const char* reason = nullptr;  // why it declines, or null
    const char* how = "";
};

// Thrown by a launch that has queued nothing because its library refused the call after all. The next
// implementation of the list gets it, and `prepare` declines such calls from then on.
struct Refused {};

// One way to run an op on one kind of device.
template <class Op>
struct Implementation {
    const char* name;
    // Why this call is not for it, or null. A pure function of the call and the device.
    const char* (*decline)(const Op&, const DeviceInfo&);
    // The configuration it would launch, for people. A pure function too.
    std::string (*config)(const Op&, const DeviceInfo&);
    // Queues the work on the context's stream; allocates nothing and waits for nothing (but see Context::scratch).
    void (*launch)(const Op&, Context&);
    // What only a context can say, asked where `decline` has no reason: a vendor library's plan. May be absent.
    Readiness (*prepare)(const Op&, Context&) = nullptr;
};

// The same, type-erased.
struct AnyImplementation {
    std::string name;
    OpFunction<const char*(const DeviceInfo&)> decline;
    OpFunction<std::string(const DeviceInfo&)> config;
    OpFunction<void(Context&)> launch;
    OpFunction<Readiness(Context&)> prepare = {};  // empty: always ready
};

// What the library knows of one op.
struct OpEntry {
    const Contract& (*contract)() = nullptr;
    std::vector<AnyImplementation>
        implementations[3];  // by DeviceType, best first; the CPU's last is the reference
    OpFunction<void(Oracle&)> reference;
};

const OpEntry* find_op(std::string_view name);  // null where there is none
std::vector<const OpEntry*> all_ops();          // by name

namespace detail {
OpEntry& entry(std::string_view name, const Contract& (*contract)());
template <class Op>
OpEntry& entry() {
    static OpEntry& e = entry(Op::kName, &Op::contract);
    return e;
}
void insert(OpEntry& entry, DeviceType target, std::size_t place, AnyImplementation implementation);
void add_reference(OpEntry& entry, OpFunction<void(Oracle&)> reference, OpFunction<void(Context&)> launch);
void run_reference(const OpEntry& entry, const void* op);
void run(const OpEntry& entry, const void* op, Context& context);
const AnyImplementation* choose(const OpEntry& entry, const void* op, Context& context);
// Queues a call by `chosen`, with the context's device selected. Gives what took it: another, where that refused.
const AnyImplementation* launch(const OpEntry& entry, const AnyImplementation* chosen, const void* op,
                                Context& context);
}  // namespace detail

// `static const RegisterImplementations<RmsNorm> kKernels{kit::kTarget, {{...}, {...}}};`
template <class Op>
struct RegisterImplementations {
    RegisterImplementations(DeviceType target, std::initializer_list<Implementation<Op>> list) {
        std::size_t place = 0;  // before those that another source registered
        for (const auto& i : list) {
            detail::insert(detail::entry<Op>(), target, place++,
                           {i.name, i.decline, i.config, i.launch, i.prepare});
        }
    }
};

// `static const RegisterReference<RmsNorm> kReference{reference};` It is also the CPU's last implementation.
template <class Op>
struct RegisterReference {
    explicit RegisterReference(void (*reference)(const Op&, Oracle&)) {
        detail::add_reference(detail::entry<Op>(), reference, launch);
    }

   private:
    static void launch(const Op& op, Context&) { detail::run_reference(detail::entry<Op>(), &op); }
};

// Checks the op, picks an implementation for the context's device, queues it on the context's stream. Throws
// Error.
template <class Op>
void run(const Op& op, Context& context) {
    detail::run(detail::entry<Op>(), &op, context);
}
// The same with a context for this one call, on the device of the first tensor that is there. Where the call takes
// scratch memory it is waited for, since that memory goes with the context; such ops (gemm, some attention) want a
// Context of yours.
template <class Op>
void run(const Op& op, Stream stream = {}) {
    const Contract& contract = Op::contract();
    Device device = kCpu;
    for (const Field& field : contract.fields()) {
        const Tensor& tensor = Contract::tensor(&op, field);
        if (!tensor) continue;
        device = tensor.device;
        break;
    }
    Context context(device, stream);
    std::exception_ptr failure;
    try {
        detail::run(detail::entry<Op>(), &op, context);
    } catch (...) {
        failure = std::current_exception();  // what was queued before it may still use the scratch memory
    }
    context.finish();
    if (failure) std::rethrow_exception(failure);
}

// A call checked and dispatched once, to be launched many times. The context must outlive it.
template <class Op>
class Prepared {
   public:
    Prepared(const Op& op, Context& context) : op_(op), context_(&context) {
        Op::contract().check_call(&op_);
        if (!Op::contract().is_empty(&op_)) chosen_ = detail::choose(detail::entry<Op>(), &op_, context);
    }
    void operator()() const {
        if (chosen_ != nullptr) chosen_ = detail::launch(detail::entry<Op>(), chosen_, &op_, *context_);
    }
    // Empty: nothing to do. A vendor library may refuse the first call: then it is another from there on.
    std::string implementation() const { return chosen_ != nullptr ? chosen_->name : ""; }

   private:
    Op op_;
    Context* context_;
    mutable const AnyImplementation* chosen_ = nullptr;
};

// Why each implementation would or would not take a call.
struct Verdict {
    std::string implementation, reason, config;  // reason empty: it accepts, and config says how
};
std::vector<Verdict> explain(const OpEntry& entry, const void* op, const DeviceInfo& device);
// The same in a context: with what it leaves out and with what its libraries say, which `explain` by a device's
// description cannot know.
std::vector<Verdict> explain(const OpEntry& entry, const void* op, Context& context);

// Where verbose lines go (WEFT_VERBOSE=dispatch, or set here); null restores silence or the environment's
// choice.
void set_log(std::function<void(const std::string&)> log);

}  // namespace weft
