// Where an op rounds: one enumeration, of which each op's contract lists those that it takes.
#pragma once

#include <cstdint>

namespace weft {

enum class Rounding : std::int32_t {
    fused,       // computes in fp32 and rounds once
    eager,       // rounds where the chain of PyTorch's operators does that the op stands for
    eager_cast,  // the same of a chain that casts to the row's dtype before the weight
};

}  // namespace weft
