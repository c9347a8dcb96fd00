"""Where the tests of integrations run: on a GPU where PyTorch finds one, else on the CPU."""

from __future__ import annotations

import torch
from weft import swap

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Who attends in fp32, as the adapters count it: weft on a CPU, PyTorch on a GPU, for this reason.
ATTENDS = swap.why_no_attention(torch.empty(0, device=DEVICE)) or "weft"
