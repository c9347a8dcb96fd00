"""Run where weft is not installed: loads the repository FOLDER as people do, and prints what came of it as JSON.

    python hub_process.py FOLDER

`ORG/weft` is that folder by LOCAL_KERNELS. Calls of weft are counted where PyTorch dispatches them, which no fallback
reaches.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from kernels import (
    LayerRepository,
    LocalLayerRepository,
    Mode,
    get_kernel,
    get_local_kernel,
    kernelize,
    replace_kernel_forward_from_hub,
    use_kernel_forward_from_hub,
    use_kernel_mapping,
)
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

FOLDER = Path(sys.argv[1]).resolve()
BY_NAME = "ORG/weft"
MODE = Mode.INFERENCE | Mode.TORCH_COMPILE
TINY: dict[str, Any] = dict(
    hidden_size=64,
    intermediate_size=96,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=128,
)
IDS = torch.arange(24).view(2, 12) % 128


class Counts(TorchDispatchMode):
    """How often each op of weft was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "weft":
            self.calls[func.name().removeprefix("weft::").removesuffix("_out")] += 1
        return func(*args, **(kwargs or {}))


def local(layer: str) -> dict[str, Any]:
    return {"cpu": {MODE: LocalLayerRepository(FOLDER, layer_name=layer)}}


def counted(call: Callable[[], torch.Tensor]) -> tuple[torch.Tensor, dict[str, int]]:
    with torch.no_grad(), Counts() as counts:
        result = call()
    return result, dict(counts.calls)


def model_of(config: Any) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if "norm" in name:
            nn.init.normal_(parameter, 1.0, 0.1)
    return model


def kernelized(config: Any, layers: tuple[str, ...]) -> dict[str, Any]:
    """A model with layers of the folder, and the calls and the difference that they made."""
    model = model_of(config)
    before, none = counted(lambda: model(IDS).logits)
    assert not none
    with use_kernel_mapping({name: local(name) for name in layers}, inherit_mapping=False):
        kernelize(model, mode=MODE, device="cpu", use_fallback=False)
    after, calls = counted(lambda: model(IDS).logits)
    return {"calls": calls, "error": float((after - before).abs().max() / before.abs().max())}


def carried() -> dict[str, Any]:
    """The folder brings weft along."""
    assert importlib.util.find_spec("weft") is None
    kernel = get_local_kernel(FOLDER)
    x = torch.randn(3, 64)
    same = torch.allclose(kernel.rms_norm(x, eps=1e-5), nn.functional.rms_norm(x, (64,), eps=1e-5), atol=1e-6)
    weft = sys.modules["weft"]
    libraries = {
        line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libweft" in line
    }
    return {
        "computes": same,
        "package": weft.__file__,
        "module": kernel.__name__,
        "libraries": sorted(libraries),
    }


def llama() -> dict[str, Any]:
    return kernelized(LlamaConfig(**TINY), ("RMSNorm", "rotary_pos_emb", "SiLU"))


def qwen3() -> dict[str, Any]:
    return kernelized(Qwen3Config(**TINY, head_dim=16), ("RMSNorm", "rotary_pos_emb", "SiLU"))


def rotary() -> dict[str, Any]:
    """Functions of one name that turn other pairs, or hand over other tables, are told apart by trying them."""

    def neighbours(x: torch.Tensor) -> torch.Tensor:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

    def turn(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> Any:
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return q * cos + neighbours(q) * sin, k * cos + neighbours(k) * sin

    def turn_of_halves(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> Any:
        cos, sin = (t[..., : t.shape[-1] // 2].repeat_interleave(2, -1) for t in (cos, sin))
        return turn(q, k, cos, sin, unsqueeze_dim)

    def mirror(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
    ) -> Any:
        return q.flip(-1), k.flip(-1)

    outcomes: dict[str, Any] = {}
    angles = torch.rand(2, 6, 8)
    for function, table in (
        (turn, angles.repeat_interleave(2, -1)),
        (turn_of_halves, torch.cat((angles, angles), -1)),
        (mirror, torch.cat((angles, angles), -1)),
    ):
        layer = use_kernel_forward_from_hub("rotary_pos_emb")(function)
        with use_kernel_mapping({"rotary_pos_emb": local("rotary_pos_emb")}, inherit_mapping=False):
            kernelize(layer, mode=MODE, device="cpu", use_fallback=False)
        for axis in (1, 2):
            q, k = (torch.randn(2, 3, 6, 16), torch.randn(2, 1, 6, 16))
            q, k = (q, k) if axis == 1 else (q.transpose(1, 2), k.transpose(1, 2))
            operands = (q, k, table.cos(), table.sin(), axis)
            try:
                (got, calls), expected = counted(lambda o=operands, f=layer: f(*o)), function(*operands)
                close = all(torch.allclose(*pair, atol=1e-5) for pair in zip(got, expected, strict=True))
                outcomes[f"{function.__name__} {axis}"] = close and calls == {"qk_norm_rope": 1}
            except NotImplementedError as error:
                outcomes[f"{function.__name__} {axis}"] = str(error)
    return outcomes


def compiled() -> dict[str, Any]:
    model = model_of(LlamaConfig(**TINY))
    before, _ = counted(lambda: model(IDS, use_cache=False).logits)
    with use_kernel_mapping(
        {name: local(name) for name in ("RMSNorm", "rotary_pos_emb", "SiLU")}, inherit_mapping=False
    ):
        kernelize(model, mode=MODE, device="cpu", use_fallback=False)
    traced: Counter[str] = Counter()

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        targets = (str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        traced.update(name.split(".")[1] for name in targets if name.startswith("weft."))
        return graph.forward

    with torch.no_grad():  # PyTorch compiles nothing under a mode that counts
        after = torch.compile(model, fullgraph=True, backend=backend)(IDS, use_cache=False).logits
    return {"calls": dict(traced), "error": float((after - before).abs().max() / before.abs().max())}


def by_name() -> dict[str, Any]:
    """As from the Hub: LOCAL_KERNELS gives the name its folder."""
    kernel = get_kernel(BY_NAME, revision="v1")
    model = model_of(LlamaConfig(**TINY))
    repository = LayerRepository(BY_NAME, layer_name="RMSNorm", revision="v1")
    silent = {name: local(name) for name in ("rotary_pos_emb", "SiLU")}
    with use_kernel_mapping({"RMSNorm": {"cpu": {MODE: repository}}} | silent, inherit_mapping=False):
        kernelize(model, mode=MODE, device="cpu", use_fallback=False)
    _, calls = counted(lambda: model(IDS).logits)
    return {"calls": calls, "same module": kernel is get_local_kernel(FOLDER)}


def attention() -> dict[str, Any]:
    """transformers takes the attention function by the repository's name, with padding on the left and in generate."""
    model: Any = model_of(LlamaConfig(**TINY))
    mask = torch.ones_like(IDS)
    mask[0, :5] = 0
    settings: dict[str, Any] = dict(attention_mask=mask, max_new_tokens=4, do_sample=False, pad_token_id=0)
    before, _ = counted(lambda: model(IDS, attention_mask=mask).logits[:, -1])
    words = model.generate(IDS, **settings)
    model.set_attn_implementation(f"{BY_NAME}@v1", allow_all_kernels=True)
    after, calls = counted(lambda: model(IDS, attention_mask=mask).logits[:, -1])
    return {
        "calls": calls,
        "error": float((after - before).abs().max() / before.abs().max()),
        "words": bool(torch.equal(words, model.generate(IDS, **settings))),
    }


def norms() -> dict[str, Any]:
    """What a norm computes is read from it; one that is no RMS norm is refused by name."""
    outcomes: dict[str, Any] = {}
    modules: dict[str, nn.Module] = {
        "nn.RMSNorm": nn.RMSNorm(64, eps=1e-3),
        "weightless": nn.RMSNorm(64, elementwise_affine=False),
        "Gemma's": __import__(
            "transformers.models.gemma.modeling_gemma"
        ).models.gemma.modeling_gemma.GemmaRMSNorm(64),
        "nn.LayerNorm": nn.LayerNorm(64),
    }
    x = torch.randn(5, 64) * 1e-2
    for name, module in modules.items():
        for parameter in module.parameters():
            nn.init.normal_(parameter, 0.5, 0.2)
        expected = module(x)
        replace_kernel_forward_from_hub(type(module), "RMSNorm")
        with use_kernel_mapping({"RMSNorm": local("RMSNorm")}, inherit_mapping=False):
            kernelize(module, mode=MODE, device="cpu", use_fallback=False)
        try:
            got, calls = counted(lambda module=module: module(x))
            outcomes[name] = calls == {"rms_norm": 1} and torch.allclose(got, expected, rtol=1e-5, atol=1e-7)
        except NotImplementedError as error:
            outcomes[name] = str(error)
    return outcomes


def activations() -> dict[str, Any]:
    """Each activation layer beside PyTorch's own."""
    layers = get_local_kernel(FOLDER).layers
    functional, x = nn.functional, torch.randn(3, 64) * 3
    gate, up = x.chunk(2, -1)
    expected = {
        "SiLU": functional.silu(x),
        "GeLU": functional.gelu(x),
        "GeluTanh": functional.gelu(x, approximate="tanh"),
        "NewGELU": functional.gelu(x, approximate="tanh"),
        "FastGELU": functional.gelu(x, approximate="tanh"),
        "QuickGELU": x * torch.sigmoid(1.702 * x),
        "SiluAndMul": functional.silu(gate) * up,
        "GeluAndMul": functional.gelu(gate) * up,
        "GeluTanhAndMul": functional.gelu(gate, approximate="tanh") * up,
    }
    return {name: torch.allclose(getattr(layers, name)()(x), y, atol=1e-5) for name, y in expected.items()}


def main() -> None:
    parts = (carried, llama, qwen3, rotary, compiled, by_name, attention, norms, activations)
    outcomes: dict[str, Any] = {}
    for part in parts:
        try:
            outcomes[part.__name__] = part()
        except Exception as error:  # the test that asks for it shows it
            outcomes[part.__name__] = {"raised": f"{type(error).__name__}: {error}"}
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
