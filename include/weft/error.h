// The one exception type of weft: what went wrong, in which op, at which field.
#pragma once

#include <exception>
#include <string>

namespace weft {

enum class ErrorCode {
    invalid_argument,  // a field breaks the op's contract
    unsupported,       // legal, but every implementation declined; the message gives each reason
    cuda,              // the CUDA runtime or a vendor library failed
    emulator_fault,    // the emulator caught a kernel breaking the execution model
    io,                // a file is missing, malformed or truncated
    internal,          // a defect of weft itself
};

const char* name(ErrorCode code);

class Error : public std::exception {
   public:
    Error(ErrorCode code, std::string op, std::string field, std::string message);

    ErrorCode code() const { return code_; }
    const std::string& op() const { return op_; }        // empty where no op is involved
    const std::string& field() const { return field_; }  // empty where no single field is at fault
    const std::string& message() const { return message_; }
    const char* what() const noexcept override { return what_.c_str(); }  // "op.field: message"

   private:
    ErrorCode code_;
    std::string op_, field_, message_, what_;
};

}  // namespace weft
