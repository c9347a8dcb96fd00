// One C function, for tests in Python: runs a case line over arrays that are already on the device.
//
//   c++ -std=c++20 -shared -fPIC -I include tests/parity/run_case.cpp -o run_case.so -L build/release
//   -l:libweft.so.0
#include <cstddef>
#include <cstring>
#include <vector>

#include "weft/case.h"
#include "weft/memory.h"

// `data`: one pointer for each field of the op, null where absent or shared. Returns 0, or 1 with the message
// in `error`.
extern "C" int weft_run_case(const char* line, void* const* data, char* error, std::size_t error_bytes) {
    try {
        weft::Case c = weft::Case::parse(line);
        c.infer();
        std::vector<std::max_align_t> call(c.contract().size() / sizeof(std::max_align_t) + 1);
        c.bind(call.data(), std::vector<void*>(data, data + c.tensors.size()), weft::kCuda);
        weft::Context context(weft::kCuda);
        weft::detail::run(c.op(), call.data(), context);
        weft::synchronize(weft::kCuda);
        return 0;
    } catch (const std::exception& e) {
        std::strncpy(error, e.what(), error_bytes - 1);
        error[error_bytes - 1] = 0;
        return 1;
    }
}
