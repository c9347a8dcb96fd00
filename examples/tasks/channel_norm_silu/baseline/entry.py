"""The user's function, which returns its result; task.toml asks for torch.compile around it."""

from chan import channel_norm_silu as run  # noqa: F401 - the entry
