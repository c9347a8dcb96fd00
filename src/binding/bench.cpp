// The measuring harness for Python: weft.bench.*. C++ owns operands, checks, order and clock; Python hands in
// callables and takes tensors over the operands of each set.
#include "bench/bench.h"

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/draw.h"
#include "bench/evidence.h"
#include "bench/foreign.h"
#include "bench/text.h"
#include "binding/view.h"

namespace weft::binding {
namespace {

using tvm::ffi::Function;
using tvm::ffi::Optional;

// An open measurement.
struct Session {
    std::string line;  // the case, as its rows have it
    std::unique_ptr<Contest> contest;
    Bench* bench = nullptr;  // the same, where it is of a case of weft
};

std::map<std::int64_t, std::unique_ptr<Session>>& sessions() {
    static std::map<std::int64_t, std::unique_ptr<Session>> open;
    return open;
}

Session& session(std::int64_t id) {
    const auto it = sessions().find(id);
    if (it == sessions().end()) TVM_FFI_THROW(ValueError) << "no such measurement is open";
    return *it->second;
}

Bench& bench_of(std::int64_t id) {
    Bench* bench = session(id).bench;
    if (bench == nullptr) TVM_FFI_THROW(ValueError) << "its operands are not weft's";
    return *bench;
}

std::int64_t opened(std::unique_ptr<Session> made) {
    static std::int64_t last = 0;
    sessions()[++last] = std::move(made);
    return last;
}

// weft's errors as Python's.
template <class Work>
auto guarded(Work work) {
    try {
        return work();
    } catch (const Error& e) {
        throw tvm::ffi::Error(e.code() == ErrorCode::cuda ? "RuntimeError" : "ValueError", e.what(), "");
    }
}

Device device_of(const std::string& name, std::int64_t index) {
    if (name == "cpu") return kCpu;
    if (name == "cuda") return {DeviceType::cuda, static_cast<int>(index)};
    TVM_FFI_THROW(ValueError) << "expected device cpu or cuda, got " << name;
}

// {"rounds", "replay_us", "seed", "eager"}, each optional.
SampleOptions sample_options(const nlohmann::json& given) {
    SampleOptions o;
    o.rounds = given.value("rounds", o.rounds);
    o.replay_us = given.value("replay_us", o.replay_us);
    o.seed = given.value("seed", o.seed);
    o.eager = given.value("eager", o.eager);
    return o;
}

// A case of weft; `options` of sampling, and "implementation". On the stream whose handle is given, or on one
// of its own.
std::int64_t open(const std::string& line, const std::string& device, std::int64_t index, std::int64_t stream,
                  const std::string& options) {
    return guarded([&] {
        const auto given = nlohmann::json::parse(options);
        BenchOptions o;
        o.sample = sample_options(given);
        o.implementation = given.value("implementation", "");
        const Case c = Case::parse(line);
        auto bench =
            std::make_unique<Bench>(c, device_of(device, index), o, Stream{reinterpret_cast<void*>(stream)});
        Bench* address = bench.get();
        return opened(std::make_unique<Session>(Session{c.line(), std::move(bench), address}));
    });
}

// A problem whose operands the caller owns: reset(set), and compare(name, set), which says what is wrong.
// `problem`: {"footprint", "bytes", "flops", "math", "overwrites_inputs", "checked_on"}, and options of
// sampling. `line` names it in its rows.
std::int64_t open_foreign(const std::string& line, const std::string& device, std::int64_t index,
                          std::int64_t stream, const std::string& problem, Function reset, Function compare) {
    return guarded([&] {
        const auto given = nlohmann::json::parse(problem);
        ForeignOperands operands;
        operands.footprint = given.at("footprint");
        operands.overwrites_inputs = given.value("overwrites_inputs", false);
        operands.checked_on = given.value("checked_on", "");
        operands.reset = [reset](std::size_t set) { reset(static_cast<std::int64_t>(set)); };
        operands.compare = [compare](const std::string& name, std::size_t set) {
            return std::string(compare(name, static_cast<std::int64_t>(set)).cast<tvm::ffi::String>());
        };
        const std::optional<DType> math = parse_dtype(given.value("math", "fp32"));
        if (!math) TVM_FFI_THROW(ValueError) << "math: there is no dtype " << given.value("math", "fp32");
        const Work work{given.at("bytes"), given.at("flops"), *math};
        auto foreign =
            std::make_unique<Foreign>(std::move(operands), device_of(device, index),
                                      Stream{reinterpret_cast<void*>(stream)}, work, sample_options(given));
        return opened(std::make_unique<Session>(Session{line, std::move(foreign), nullptr}));
    });
}

// A field of an operand set, as long as the measurement is open. 8-bit floats come as uint8: not every
// framework takes them through DLPack.
tvm::ffi::Tensor operand(std::int64_t id, std::int64_t set, const std::string& field) {
    Bench& bench = bench_of(id);
    if (set < 0 || static_cast<std::size_t>(set) >= bench.sets())
        TVM_FFI_THROW(ValueError) << "there is no operand set " << set << " among " << bench.sets();
    const Instance& operands = bench.operands(static_cast<std::size_t>(set));
    const Case& c = operands.source();
    const int i = c.contract().find_field(field);
    if (i < 0 || !c.tensors[static_cast<std::size_t>(i)].present)
        TVM_FFI_THROW(ValueError) << "the case has no " << field;
    Tensor t = Contract::tensor(operands.call(), c.contract().fields()[static_cast<std::size_t>(i)]);
    if (t.dtype == DType::int4) {  // which no framework has: two come in a byte
        t.shape[t.rank - 1] /= 2;
        for (int axis = 0; axis + 1 < t.rank; ++axis) t.stride[axis] /= 2;
    }
    if (is_fp8(t.dtype) || t.dtype == DType::int4) t.dtype = DType::uint8;
    return view_of(t);
}

// call(set); record(sets, calls) gives what replays them, or is None; deliver(set), or None; `kind`: weft,
// baseline, or unrecorded for a baseline that works on a stream of its own.
void add(std::int64_t id, const std::string& name, const std::string& kind, Function call,
         Optional<Function> record, Optional<Function> deliver) {
    Callable callable;
    callable.name = name;
    callable.side = kind == "weft" ? Side::weft : Side::baseline;
    callable.recordable = kind != "unrecorded";
    callable.call = [call](std::size_t set) { call(static_cast<std::int64_t>(set)); };
    if (record.has_value()) {
        callable.record = [make = record.value()](std::size_t sets, std::size_t calls) {
            auto replay =
                make(static_cast<std::int64_t>(sets), static_cast<std::int64_t>(calls)).cast<Function>();
            return [replay] { replay(); };
        };
    }
    if (deliver.has_value()) {
        callable.deliver = [deliver = deliver.value()](std::size_t set) {
            deliver(static_cast<std::int64_t>(set));
        };
    }
    session(id).contest->add(std::move(callable));
}

// {"rows": [...], "text": "..."}.
tvm::ffi::String run(std::int64_t id, const std::string& run_id, const std::string& env,
                     const std::string& workload) {
    return guarded([&] {
        Session& s = session(id);
        const Measurement m = s.contest->run();
        const std::string title = workload.empty() ? s.line : workload + "  " + s.line;
        return tvm::ffi::String(nlohmann::json{
            {"rows", measurement_rows(s.line, m, {run_id, env, workload})},
            {"text", measurement_text(title, m, s.contest->info())},
            {"sets", m.cold_sets}}.dump());
    });
}

// Lines of drawn cases, as a JSON list; `ops`: names, as a JSON list, none for all.
tvm::ffi::String draw(const std::string& ops, std::int64_t cases, std::int64_t seed) {
    std::vector<const OpEntry*> entries;
    for (const std::string name : nlohmann::json::parse(ops)) {
        entries.push_back(find_op(name));
        if (entries.back() == nullptr) TVM_FFI_THROW(ValueError) << "no op is named " << name;
    }
    std::vector<std::string> lines;
    for (const Case& c : draw_cases(entries.empty() ? all_ops() : entries, static_cast<int>(cases),
                                    static_cast<std::uint64_t>(seed)))
        lines.push_back(c.line());
    return tvm::ffi::String(nlohmann::json(lines).dump());
}

TVM_FFI_STATIC_INIT_BLOCK() {
    const auto global = [](const char* name, Function f) {
        Function::SetGlobal(std::string("weft.bench.") + name, f);
    };
    global("open", Function::FromTyped(open));
    global("open_foreign", Function::FromTyped(open_foreign));
    global("close", Function::FromTyped([](std::int64_t id) { sessions().erase(id); }));
    global("operand", Function::FromTyped(operand));
    global("add", Function::FromTyped(add));
    global("add_own", Function::FromTyped([](std::int64_t id, bool weft, bool vendors, bool card) {
               guarded([&] {
                   if (weft) bench_of(id).add_weft();
                   if (vendors) bench_of(id).add_vendors();
                   if (card) session(id).contest->add_card();
                   return 0;
               });
           }));
    global("chosen", Function::FromTyped([](std::int64_t id) {
               return guarded([&] { return tvm::ffi::String(bench_of(id).chosen()); });
           }));
    // chain(set): why a baseline's result is nothing that its framework's chain of operators may give, or "".
    global("allow_chain", Function::FromTyped([](std::int64_t id, const Function& chain) {
               bench_of(id).allow_chain([chain](std::size_t set) {
                   return std::string(chain(static_cast<std::int64_t>(set)).cast<tvm::ffi::String>());
               });
           }));
    global("run", Function::FromTyped(run));
    global("draw", Function::FromTyped(draw));
    global("environment",
           Function::FromTyped([](const std::string& device, std::int64_t index, const std::string& command) {
               return guarded([&] {
                   return tvm::ffi::String(environment_row(device_of(device, index), command).dump());
               });
           }));
}

}  // namespace
}  // namespace weft::binding
