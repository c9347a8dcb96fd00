"""The gated residual as PyTorch's eager chain computes it: the product is rounded before the sum."""


def residual_gate_add(residual, update, gate):
    return residual + update * gate
