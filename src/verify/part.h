// Parts of a call that are calls of the same op on less: ranges along axes that the contract declares
// independent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/case.h"

namespace weft {

// An axis along which a case may be cut.
struct Cut {
    std::string name;
    int axis = -1;     // a named one, by its number in the contract
    int leading = -1;  // or one of those that "..." stands for
    std::int64_t size = 0;
    std::vector<std::string> whole;  // fields that it leaves whole: tables whose rows are picked
};
// None where an output belongs to the call as a whole, or a field rounds the axis.
std::vector<Cut> cuts_of(const Case& c);

struct Range {
    std::int64_t begin = 0, end = 0;
};
using Part = std::vector<Range>;  // one range a cut

// The part's share of a field's tensor: all of it where the field lacks the axes.
Tensor share(const Tensor& whole, const Field& field, const std::vector<Cut>& cuts, const Part& part);
// Does any cut go through the field?
bool is_cut(const Field& field, const std::vector<Cut>& cuts);

// The part as a case, its tensors dense.
Case part_case(const Case& c, const std::vector<Cut>& cuts, const Part& part);

}  // namespace weft
