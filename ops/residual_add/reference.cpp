// residual_add's executable specification.
#include "kit/affine_reference.h"
#include "ops/residual_add/residual_add.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const ResidualAdd& op, Oracle& oracle) {
    const ReferenceAffine affine{.x = {op.x, op.x},
                                 .bias = {op.bias, op.x},
                                 .scale = {op.gate, op.x, op.index},
                                 .shift = {op.residual, op.x},
                                 .out = {op.out, op.x},
                                 .eager = op.rounding == Rounding::eager};
    affine.store(row_count(op.x), op.x.dim(-1), oracle);
}

const RegisterReference<ResidualAdd> kReference{reference};

}  // namespace
}  // namespace weft
