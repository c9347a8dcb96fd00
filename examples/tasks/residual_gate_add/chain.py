"""Where LTX-2 and FLUX have the op: between an attention's projection and the next block's norm."""

from torch.nn import functional


def chain(op, residual, update, gate):
    hidden = op(residual, functional.silu(update), gate)
    return functional.layer_norm(hidden, hidden.shape[-1:]), hidden
