// Error: composing the one-line message.
#include "weft/error.h"

namespace weft {

const char* name(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument: return "invalid argument";
        case ErrorCode::unsupported: return "unsupported";
        case ErrorCode::cuda: return "CUDA error";
        case ErrorCode::emulator_fault: return "emulator fault";
        case ErrorCode::io: return "file error";
        case ErrorCode::internal: return "internal error";
    }
    return "error";
}

Error::Error(ErrorCode code, std::string op, std::string field, std::string message)
    : code_(code), op_(std::move(op)), field_(std::move(field)), message_(std::move(message)) {
    what_ = op_;
    if (!field_.empty()) what_ += (what_.empty() ? "" : ".") + field_;
    if (!what_.empty()) what_ += ": ";
    what_ += message_;
}

}  // namespace weft
