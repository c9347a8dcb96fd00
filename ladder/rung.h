// What every rung of the ladder includes: the target, launching, and its registration.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/ladder.h"
#include "kit/launch.h"
#include "kit/target.h"
#include "weft/op.h"

namespace weft::inline WEFT_TARGET {

// `const RegisterRung<Softmax> kRung{decline, launch};` in ladder/softmax/01_naive.cu makes "ladder/softmax/01_naive".
// `decline` gives the reason why a call is not for this rung, or null.
template <class Op>
struct RegisterRung {
    RegisterRung(const char* (*decline)(const Op&, const DeviceInfo&), void (*launch)(const Op&, Context&),
                 const char* file = __builtin_FILE()) {
        std::string name = file;
        name = name.substr(name.rfind("ladder/"));
        name_ = name.substr(0, name.rfind('.'));
        const auto config = +[](const Op&, const DeviceInfo&) { return std::string("as its file says"); };
        weft::ladder::add(name_, Op::kName, kit::kTarget, {name_, decline, config, launch});
    }
    const char* name() const { return name_.c_str(); }

   private:
    std::string name_;
};

// A dense tensor of this dtype: what most rungs want of each operand.
inline bool is_dense(const Tensor& tensor, DType dtype) { return tensor.dtype == dtype && tensor.is_dense(); }

// Does a tensor start where a whole vector of so many bytes may be read?
inline bool starts_aligned(const Tensor& tensor, unsigned bytes) {
    return reinterpret_cast<std::uintptr_t>(tensor.data) % bytes == 0;
}

// Whether a call has no tensors but those named: a rung that lists what it takes refuses options that come later.
template <class Op>
bool has_only(const Op& op, std::initializer_list<std::string_view> names) {
    for (const Field& field : Op::contract().fields()) {
        if (Contract::tensor(&op, field) && std::find(names.begin(), names.end(), field.name) == names.end())
            return false;
    }
    return true;
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

inline dim3 blocks_for(std::int64_t items, int threads) {
    return dim3(static_cast<unsigned>(divide_up(items, threads)));
}

// This thread's number among all threads of a one-dimensional grid.
__device__ __forceinline__ std::int64_t thread_in_grid() {
    return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

}  // namespace weft::inline WEFT_TARGET
