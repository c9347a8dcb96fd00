"""One rank of a model whose layers `tp_plan="auto"` splits; started by torchrun, with the folder of a saved model."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import weft.transformers
from transformers import AutoModelForCausalLM
from weft import swap

from tests.integrations import models


def main() -> None:
    folder = Path(sys.argv[1])
    expected = torch.load(folder / "expected.pt")
    model = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto", dtype=torch.float32).eval()
    plain = models.logits(model, models.tokens())
    report = weft.transformers.accelerate(model)
    got = models.logits(model, models.tokens())
    assert (plain - expected).abs().max() < 1e-5
    assert (got - expected).abs().max() < 1e-5, (got - expected).abs().max()
    assert report.silent() == [], str(report)
    assert report.calls()["model.layers.0.self_attn"] == 1
    assert weft.transformers.attention_calls()["weft"] == model.config.num_hidden_layers
    weight = model.model.layers[0].self_attn.q_proj.weight
    rows = getattr(weight, "to_local", lambda: weight)().shape[0]
    assert rows * dist.get_world_size() == 64, "the model was not split"
    assert "two products" in next(iter(report.passed()["model.layers.0.mlp"]))
    swap.undo(model)
    assert torch.equal(models.logits(model, models.tokens()), plain)
    print("rank done", dist.get_rank(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
