// Parts of a call that are calls of the same op on less: ranges along axes that the contract declares
// independent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/case.h"

namespace weft {

struct Range {
    std::int64_t begin = 0, end = 0;
};

// An axis along which a case may be cut.
struct Cut {
    std::string name;
    int axis = -1;     // a named one, by its number in the contract
    int leading = -1;  // or one of those that "..." stands for
    std::int64_t length = 0;
    // So many indices are only cut together: 128 where a field has one element for 128 of them. 0: none may be.
    std::int64_t step = 1;
    std::int64_t size = 0;  // so many steps, the last of which may be shorter

    // The indices of a range of steps.
    Range indices(const Range& steps) const {
        return {steps.begin * step, std::min(steps.end * step, length)};
    }
};
// None where an output belongs to the call as a whole, or a field rounds the axis in a way that no step suits.
std::vector<Cut> cuts_of(const Case& c);

using Part = std::vector<Range>;  // one range of steps a cut

// The part's share of a tensor with these axes: all of it where they are others.
Tensor share(const Tensor& whole, const AxisPattern& pattern, const std::vector<Cut>& cuts, const Part& part);
// Does any cut go through a tensor with these axes?
bool is_cut(const AxisPattern& pattern, const std::vector<Cut>& cuts);

// The part as a case, its tensors dense.
Case part_case(const Case& c, const std::vector<Cut>& cuts, const Part& part);

}  // namespace weft
