// Packed arguments to op structs, and weft's errors to Python's.
#include "binding/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/string.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "weft/dlpack.h"

namespace weft::binding {
namespace {

[[noreturn]] void reject(const Contract& contract, const std::string& field, std::string message) {
    throw Error(ErrorCode::invalid_argument, contract.name(), field, std::move(message));
}

// Frameworks have no int4 that holds numbers: where a field takes it and no uint8, two come in each byte of that.
bool comes_in_bytes(const Field& field, DType dtype) {
    return dtype == DType::uint8 && field.dtypes.contains(DType::int4) && !field.dtypes.contains(dtype);
}
Tensor as_int4(Tensor t) {
    t.dtype = DType::int4;
    if (t.rank > 0) t.shape[t.rank - 1] *= 2;
    for (int i = 0; i + 1 < t.rank; ++i) t.stride[i] *= 2;
    return t;
}

Tensor tensor_argument(const Contract& contract, const Field& field, const tvm::ffi::AnyView& argument) {
    if (argument == nullptr) return {};
    const auto tensor = argument.try_cast<DLTensor*>();
    if (!tensor) reject(contract, field.name, "expected a tensor, got " + argument.GetTypeKey());
    const Tensor given = from_dlpack(**tensor, contract.name().c_str(), field.name.c_str());
    return comes_in_bytes(field, given.dtype) ? as_int4(given) : given;
}

double number_argument(const Contract& contract, const Option& option, const tvm::ffi::AnyView& argument) {
    const auto number = argument.try_cast<double>();
    if (!number) reject(contract, option.name, "expected a number, got " + argument.GetTypeKey());
    if (option.kind != Option::Kind::real && *number != std::floor(*number)) {
        reject(contract, option.name, fmt::format("expected a whole number, got {}", *number));
    }
    return *number;
}

double option_argument(const Contract& contract, const Option& option, const tvm::ffi::AnyView& argument) {
    const auto word = argument.try_cast<tvm::ffi::String>();
    if (option.kind != Option::Kind::choice || !word) return number_argument(contract, option, argument);
    const auto found = std::find(option.choices.begin(), option.choices.end(), word->c_str());
    if (found == option.choices.end()) {
        reject(contract, option.name,
               fmt::format("expected one of {}, got {}", fmt::join(option.choices, ", "), word->c_str()));
    }
    return static_cast<double>(found - option.choices.begin());
}

const char* kind_of(const Error& error, const Contract& contract, const void* op) {
    switch (error.code()) {
        case ErrorCode::invalid_argument: break;
        case ErrorCode::unsupported: return "NotImplementedError";
        case ErrorCode::io: return "OSError";
        default: return "RuntimeError";
    }
    const int i = contract.find_field(error.field());
    if (i < 0) return "ValueError";
    const Field& field = contract.fields()[static_cast<std::size_t>(i)];
    const Tensor& tensor = Contract::tensor(op, field);
    return tensor && field.dtypes.contains(tensor.dtype) ? "ValueError" : "TypeError";
}

}  // namespace

Call::Call(const Contract& contract) : contract_(contract) {
    if (contract.size() > kBytes) reject(contract, "", fmt::format("its struct exceeds {} bytes", kBytes));
    contract.construct(storage_);
}

void Call::read(tvm::ffi::PackedArgs args) try {
    const auto& fields = contract_.fields();
    const auto& options = contract_.options();
    const auto given = static_cast<std::size_t>(args.size());
    if (given > fields.size() + options.size()) {
        reject(contract_, "",
               fmt::format("expected at most {} arguments, got {}", fields.size() + options.size(), given));
    }
    for (std::size_t i = 0; i < given; ++i) {
        const tvm::ffi::AnyView argument = args[static_cast<int>(i)];
        if (i < fields.size()) {
            Contract::tensor(storage_, fields[i]) = tensor_argument(contract_, fields[i], argument);
        } else {
            set(options[i - fields.size()], argument);
        }
    }
} catch (const Error& error) {
    rethrow(error);
}

void Call::read(const std::vector<const Field*>& fields, tvm::ffi::PackedArgs tensors,
                tvm::ffi::PackedArgs options) try {
    if (static_cast<std::size_t>(tensors.size()) != fields.size()) {
        reject(contract_, "", fmt::format("expected {} tensors, got {}", fields.size(), tensors.size()));
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
        Contract::tensor(storage_, *fields[i]) =
            tensor_argument(contract_, *fields[i], tensors[static_cast<int>(i)]);
    }
    for (int i = 0; i < options.size(); ++i)
        set(contract_.options()[static_cast<std::size_t>(i)], options[i]);
} catch (const Error& error) {
    rethrow(error);
}

void Call::set(const Option& option, const tvm::ffi::AnyView& argument) {
    if (argument == nullptr) return;
    Contract::set(storage_, option, option_argument(contract_, option, argument));
}

Device Call::device() const {
    for (const Field& field : contract_.fields()) {
        const Tensor& tensor = Contract::tensor(op(), field);
        if (tensor) return tensor.device;
    }
    return kCpu;
}

void Call::move(Device device) {
    for (const Field& field : contract_.fields()) {
        Tensor& tensor = Contract::tensor(storage_, field);
        if (tensor) tensor.device = device;
    }
}

void rethrow(const Error& error, const Contract& contract, const void* op) {
    throw tvm::ffi::Error(kind_of(error, contract, op), error.what(), "");
}

}  // namespace weft::binding
