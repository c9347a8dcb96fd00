// modulate's executable specification.
#include "kit/affine_reference.h"
#include "ops/modulate/modulate.h"
#include "weft/op.h"

namespace weft {
namespace {

void reference(const Modulate& op, Oracle& oracle) {
    const ReferenceAffine affine{.x = {op.x, op.x},
                                 .bias = {{}, op.x},
                                 .scale = {op.scale, op.x, op.index},
                                 .shift = {op.shift, op.x, op.index},
                                 .out = {op.out, op.x},
                                 .offset = static_cast<double>(op.offset),
                                 .eager = op.rounding == Rounding::eager};
    affine.store(row_count(op.x), op.x.dim(-1), oracle);
}

const RegisterReference<Modulate> kReference{reference};

}  // namespace
}  // namespace weft
