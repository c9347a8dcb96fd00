"""What a video autoencoder applies between its convolutions: channels to unit length, a gain, SiLU."""

import torch
from torch.nn import functional


def channel_norm_silu(x, gain, *, eps=1e-12):
    length = torch.linalg.vector_norm(x.float(), dim=1, keepdim=True).clamp_min(eps)
    return functional.silu(x.float() / length * x.shape[1] ** 0.5 * gain.float()[:, None]).to(x.dtype)
