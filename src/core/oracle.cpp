// Oracle: keeping what the reference wrote.
#include "weft/oracle.h"

#include <algorithm>

namespace weft {

void Oracle::store_exact(const Tensor& tensor, std::int64_t offset, std::int64_t value) {
    store_integer(tensor.dtype, tensor.data, offset, value);
    if (recording_) record(tensor, offset, static_cast<double>(value), 0);
}

const Oracle::Record* Oracle::find(const void* data) const {
    const auto it =
        std::find_if(records_.begin(), records_.end(), [&](const Record& r) { return r.data == data; });
    return it == records_.end() ? nullptr : &*it;
}

void Oracle::record(const Tensor& tensor, std::int64_t offset, double value, double error) {
    if (records_.empty() || records_.back().data != tensor.data) {
        const auto it = std::find_if(records_.begin(), records_.end(),
                                     [&](const Record& r) { return r.data == tensor.data; });
        if (it != records_.end()) {
            std::rotate(it, it + 1, records_.end());  // the one in use is the last: references write in runs
        } else {
            const auto n = static_cast<std::size_t>(tensor.span());
            records_.push_back(
                {tensor.data, std::vector<double>(n), std::vector<double>(n), std::vector<bool>(n)});
        }
    }
    Record& r = records_.back();
    const auto i = static_cast<std::size_t>(offset);
    r.value[i] = value;
    r.error[i] = error;
    r.written[i] = true;
}

}  // namespace weft
