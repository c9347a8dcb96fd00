"""The same Gemma layers in plain PyTorch: what a user would run instead, and the judge of weft's rounding.

    python torch_baseline.py --checkpoint DIR --input weft.safetensors [--mode max-autotune-no-cudagraphs]
        [--weft "NAME=CMD" ...] [--rows FILE --command CMD]

Reads the embeddings that `weft run pi05-encoder --out` wrote, runs every layer and the final norm, compares weft's
output with the fp32 result and with PyTorch's own bf16, and times torch.compile of the layers in a CUDA Graph. Each
--weft command (which must print JSON) runs between two rounds of that timing, so that both sides are measured in
one session of the card. --rows appends evidence rows.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import uuid
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch.nn.attention import SDPBackend, sdpa_kernel


class Gemma:
    """Gemma's decoder layers without a mask, on weights under transformers' names."""

    def __init__(self, checkpoint: Path, layers: int, head_dim: int, dtype: torch.dtype, device: str):
        self.head_dim, self.dtype = head_dim, dtype
        files = sorted(checkpoint.glob("*.safetensors")) if checkpoint.is_dir() else [checkpoint]
        tensors: dict[str, torch.Tensor] = {}
        for file in files:
            with safe_open(file, "pt") as f:
                for name in f.keys():  # noqa: SIM118 (safe_open is no dict)
                    if name.startswith("model.layers.") and int(name.split(".")[2]) >= layers:
                        continue
                    if name.startswith("model.layers.") or name == "model.norm.weight":
                        tensors[name] = f.get_tensor(name).to(device, dtype)
        self.norm = tensors["model.norm.weight"]
        self.layers = [self._layer(tensors, f"model.layers.{i}.") for i in range(layers)]

    @staticmethod
    def _layer(t: dict[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        qkv = [t.pop(attention + f"{x}_proj.weight") for x in "qkv"]
        return {
            "norm1": t.pop(prefix + "input_layernorm.weight"),
            "norm2": t.pop(prefix + "post_attention_layernorm.weight"),
            "qkv": torch.cat(qkv),
            "kv": torch.tensor(qkv[1].shape[0]),
            "out": t.pop(attention + "o_proj.weight"),
            "gate_up": torch.cat([t.pop(mlp + "gate_proj.weight"), t.pop(mlp + "up_proj.weight")]),
            "down": t.pop(mlp + "down_proj.weight"),
        }

    def rotary(self, tokens: int, device: str, base: float) -> tuple[torch.Tensor, torch.Tensor]:
        inverse = 1.0 / base ** (torch.arange(0, self.head_dim, 2, device=device).float() / self.head_dim)
        angle = torch.arange(tokens, device=device).float()[:, None] * inverse
        angle = torch.cat([angle, angle], -1)
        return angle.cos().to(self.dtype), angle.sin().to(self.dtype)

    @staticmethod
    def _norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1.0 + weight.float())).to(x.dtype)

    @staticmethod
    def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def __call__(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        d, n = self.head_dim, x.shape[0]
        for layer in self.layers:
            qkv = self._linear(self._norm(x, layer["norm1"]), layer["qkv"]).view(n, -1, d).transpose(0, 1)
            q_heads = layer["out"].shape[1] // d
            kv_heads = (qkv.shape[0] - q_heads) // 2
            q, k, v = qkv.split([q_heads, kv_heads, kv_heads])
            q, k = self._rotate(q, cos, sin), self._rotate(k, cos, sin)
            attended = F.scaled_dot_product_attention(q[None], k[None], v[None], enable_gqa=True)[0]
            x = x + self._linear(attended.transpose(0, 1).reshape(n, -1), layer["out"])
            gate, up = self._linear(self._norm(x, layer["norm2"]), layer["gate_up"]).chunk(2, -1)
            x = x + self._linear(F.gelu(gate, approximate="tanh") * up, layer["down"])
        return self._norm(x, self.norm)

    @staticmethod
    def _linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x @ weight.T


def relative(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


class GraphTimer:
    """A callable captured in a CUDA Graph, timed a round at a time."""

    def __init__(self, call):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = call()
        self.samples: list[float] = []

    def round(self, repeats: int) -> None:
        for _ in range(3):
            self.graph.replay()
        for _ in range(repeats):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            self.graph.replay()
            end.record()
            end.synchronize()
            self.samples.append(begin.elapsed_time(end) * 1e3)


def summary(samples: list[float]) -> dict[str, float]:
    s = sorted(samples)
    return {
        "median": statistics.median(s),
        "mean": statistics.fmean(s),
        "std": statistics.pstdev(s),
        "min": s[0],
        "p10": s[len(s) // 10],
        "p90": s[len(s) * 9 // 10],
    }


def environment(command: str) -> dict[str, object]:
    def output(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    query = "driver_version,clocks.sm,clocks_throttle_reasons.active"
    driver, clock, throttle = output("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader").split(
        ", "
    )
    return {
        "env": uuid.uuid4().hex[:12],
        "gpu": torch.cuda.get_device_name(),
        "driver": driver,
        "cuda": torch.version.cuda,
        "libraries": {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()},
        "commit": os.environ.get("WEFT_COMMIT") or output("git", "rev-parse", "HEAD") or None,
        "dirty": os.environ.get("WEFT_DIRTY", bool(output("git", "status", "--porcelain")))
        not in ("0", False),
        "flags": "weft: nvcc -O2, sm_90a; torch: its wheel",
        "command": command,
        "clocks": {"sm after": clock, "throttle": throttle},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def write_rows(path: Path, report: dict, samples: dict[str, list[float]], work: dict, command: str) -> None:
    env = environment(command)
    run = uuid.uuid4().hex[:12]
    with path.open("a") as file:
        file.write(json.dumps(env) + "\n")
        for name, values in samples.items():
            row = {
                "run": run,
                "case": f"pi05-encoder tokens={report['tokens']} layers={report['layers']}",
                "workload": None,
                "side": "weft" if name.startswith("weft") else "baseline",
                "name": name,
                "time": "device",
                "cache": "cold",
                "us": summary(values),
                "samples": len(values),
                **work.get(name, next(iter(work.values()), {})),
                "checked": True,
                "env": env["env"],
            }
            file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--input", type=Path, required=True, action="append", help="weft outputs to judge")
    parser.add_argument("--layers", type=int, default=18)
    parser.add_argument("--head-dim", type=int, default=256)
    # The modes without CUDA Graphs of their own: each side is captured here.
    parser.add_argument("--mode", default="default", choices=["default", "max-autotune-no-cudagraphs"])
    parser.add_argument("--weft", action="append", default=[], help="NAME=COMMAND, which prints JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--command", default="", help="what makes the rows again, for their environment")
    args = parser.parse_args()

    with safe_open(args.input[0], "pt") as f:
        embeddings = f.get_tensor("embeddings")
    outputs = {}
    for path in args.input:
        with safe_open(path, "pt") as f:
            outputs[path.stem] = f.get_tensor("output").cuda()

    report: dict[str, object] = {
        "tokens": embeddings.shape[0],
        "layers": args.layers,
        "torch": torch.__version__,
    }
    with (
        torch.inference_mode(),
        sdpa_kernel(
            [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], set_priority=True
        ),
    ):
        torch.backends.cuda.matmul.allow_tf32 = False
        full = Gemma(args.checkpoint, args.layers, args.head_dim, torch.float32, "cuda")
        exact = full(embeddings.cuda(), *full.rotary(embeddings.shape[0], "cuda", 10000.0))
        del full
        model = Gemma(args.checkpoint, args.layers, args.head_dim, torch.bfloat16, "cuda")
        x = embeddings.cuda().bfloat16()
        cos, sin = model.rotary(x.shape[0], "cuda", 10000.0)
        eager = model(x, cos, sin)
        report["relative_error"] = {"torch bf16": relative(eager, exact)} | {
            name: relative(out, exact) for name, out in outputs.items()
        }
        report["cosine"] = {
            name: F.cosine_similarity(out.double().flatten(), exact.double().flatten(), 0).item()
            for name, out in outputs.items()
        }
        compiled = torch.compile(
            model.__call__, mode=None if args.mode == "default" else args.mode, fullgraph=True
        )
        timers = {
            "torch eager": GraphTimer(lambda: model(x, cos, sin)),
            f"torch.compile {args.mode}": GraphTimer(lambda: compiled(x, cos, sin)),
        }
        samples = {name: timer.samples for name, timer in timers.items()}
        work: dict[str, dict[str, float]] = {}  # a baseline does the work of the first weft command
        for _ in range(args.rounds):
            for timer in timers.values():
                timer.round(args.repeats)
            for name, command in (entry.split("=", 1) for entry in args.weft):
                done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True)
                result = json.loads(done.stdout)
                samples.setdefault(name, []).extend(result["samples_us"])
                work[name] = {
                    key: sum(label[key] for label in result["labels"])
                    for key in ("floor_us", "bytes", "flops")
                }
    report["us"] = {name: summary(values) for name, values in samples.items()}
    text = json.dumps(report, indent=1)
    print(text)
    if args.rows:
        write_rows(args.rows, report, samples, work, args.command)


if __name__ == "__main__":
    main()
