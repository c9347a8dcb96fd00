// An op call as one line of text, without data: what a log prints, a test is named after and the tool
// accepts.
//
//   rms_norm x=bf16[4096,3072] weight=bf16[3072] out=fp8_e4m3 eps=1e-6
//
// A tensor is dtype[shape], with {strides} where it is not dense, +N where it starts N elements into its
// memory (an unaligned base), @field where it shares a field's memory. An output may leave its shape, or
// itself, to be inferred. An option is name=value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/op.h"

namespace weft {

struct TensorSpec {
    bool present = false;
    DType dtype = DType::fp32;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> stride;  // empty: dense
    std::int64_t offset = 0;           // elements between the start of its memory and its data
    int alias = -1;                    // the field whose memory it shares, or -1

    bool operator==(const TensorSpec&) const = default;
    // The view over memory whose first element is at `base`.
    Tensor over(void* base, Device device) const;
    std::int64_t span() const;  // elements of memory needed, offset included
};

class Case {
   public:
    explicit Case(const OpEntry& op);

    // Throws invalid_argument that shows the place in the line.
    static Case parse(std::string_view line);
    // The case of a call.
    static Case of(const OpEntry& op, const void* call);

    const OpEntry& op() const { return *op_; }
    const Contract& contract() const { return op_->contract(); }
    std::vector<TensorSpec> tensors;  // by field
    std::vector<double> options;      // by option

    // The pattern of a field's axes, where the fields that are there are these.
    const AxisPattern& pattern(std::size_t field) const;
    // Fills in what outputs left open. Throws where shapes can't be inferred.
    void infer();
    // parse(line()) is this case.
    std::string line() const;
    // Writes options and views over `bases` (one a field, null where absent) into an op struct.
    void bind(void* call, const std::vector<void*>& bases, Device device) const;
    // Throws what Contract::check would, with made-up addresses: no memory is touched or allocated.
    AxisSizes check() const;
    // Calls `use` with an op struct over made-up addresses (for explain, work, configurations).
    void with_call(Device device, const std::function<void(const void* call)>& use) const;

    bool operator==(const Case&) const = default;

   private:
    const OpEntry* op_;
};

}  // namespace weft
