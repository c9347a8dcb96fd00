"""weft in a model of transformers: python transformers_injection.py [--model ORG/NAME]

Loads a model, or makes one of random weights, generates with it as it is and with weft in it, and shows what was
replaced, what was declined and why, how often weft was called, and how far the logits lie apart.
"""

from __future__ import annotations

import argparse
import sys

import torch
import weft.swap
import weft.transformers
from transformers import AutoModelForCausalLM, PreTrainedModel, Qwen3Config

SIZES = {
    "tiny": dict(
        hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, head_dim=16
    ),
    "8b": dict(
        hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32, head_dim=128
    ),
}


def load(given: argparse.Namespace, device: str) -> PreTrainedModel:
    """A model of the Hub or of a folder, or one of Qwen3's shapes with random weights."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    if given.model:
        return AutoModelForCausalLM.from_pretrained(given.model, dtype=dtype).to(device).eval()
    heads = 8 if given.size == "8b" else 2
    config = Qwen3Config(**SIZES[given.size], num_key_value_heads=heads, vocab_size=512)
    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config, dtype=dtype).eval()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", help="a model of the Hub, or a folder with one (default: random weights)")
    parser.add_argument("--size", default="tiny", choices=SIZES, help="of a model of random weights")
    parser.add_argument("--tokens", type=int, default=8, help="to generate")
    parser.add_argument("--rounding", default="fused", choices=("fused", "eager"))
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load(given, device)
    prompt = torch.arange(3, 15, device=device)[None]
    settings = dict(max_new_tokens=given.tokens, do_sample=False, pad_token_id=0)

    with torch.inference_mode():
        before, words = model(prompt).logits, model.generate(prompt, **settings)
        report = weft.transformers.accelerate(model, rounding=given.rounding)
        after, weft_words = model(prompt).logits, model.generate(prompt, **settings)
        print(report)
        print("\nattention:", dict(weft.transformers.attention_calls()))
        apart = ((after - before).abs().max() / before.abs().max()).item()
        print(f"logits lie {apart:.2e} of the largest apart")
        print("generated:", "the same tokens" if torch.equal(words, weft_words) else "other tokens")
        weft.swap.undo(model)
        same = torch.equal(model(prompt).logits, before)
    print("undone:", "the same bits as before" if same else "other bits than before")
    if report.silent():
        print("never called:", ", ".join(report.silent()))
    return 0 if report.replaced and not report.silent() and same else 1


if __name__ == "__main__":
    sys.exit(main())
