"""The sources of blocks that weft's forwards were written for, by weft.swap.source_hash.

One line a class, of transformers 5.17.0 to 5.22.2; an attention's hash is that of its rotation's functions too. A
version with other source gets the swaps of leaf modules, and a report that names its hash.
"""

from __future__ import annotations

_LINES = """
llama LlamaDecoderLayer 4ccbbc69ccb5470edf7485f6e0c558ac2f1c6fc965aa5d7424576290a4f47e3e
llama LlamaAttention afff1f2a7b42641adc597d2d24311c62c09a5c4e2e6ba60b16685f8e05853391
llama LlamaMLP dff52a61a4d4a2a15fd9161c3bb2ebfa2e78e89e76cf6ce7ef361d8c176e38f7
mistral MistralDecoderLayer eeb1198c288fecea0c5998e0c74b1a3c7975f080d4052ef338143970f6b6ee72
mistral MistralAttention 06e25caf494df14dfa82ccd9911ae720162d43ac286f93495116b3da9520fa1f
mistral MistralMLP e88a143c6ce1d4e519690b014d5dc3f78a1389bc7fcc3f0196616c449f481788
qwen2 Qwen2DecoderLayer 5484fa796284ea6b377bbb81b083c3b00fe77e24494ec7a3c60fd0112868bf60
qwen2 Qwen2Attention 9a07f0e267b034e72498b93a95807281a20b4d10dab8af97f049da0c23054d0a
qwen2 Qwen2MLP 92475908d02ecad233a6821290fa1a9cb4bc4346a16eaae841b7a7a0b4618c24
qwen3 Qwen3DecoderLayer 881518504931f6d0b62e1a1e517d6e08c2f6d345db2878c854714c0bbe6fd847
qwen3 Qwen3Attention f339288a39e7a2ff49ebb16f5266cb7a901e569016e7ed36fb57808e49b71f6e
qwen3 Qwen3MLP ab5949f6eab0729ae859d436d16b8f03774435135ae1176dfdf979e588fa26ea
gemma GemmaDecoderLayer f038e25c0794f9c2d134ad9b70fb9d5231a0ed514f38c848735b40fec98adde0
gemma GemmaAttention 74836abe740409d5ae6c809e71e9f038ae0f54c72539f6de59aa37b607a6106d
gemma GemmaMLP f22139e42cf68bc3ef3935c73c0d603e7ac6e4422b39cb7b8d344fde5591c804
gemma2 Gemma2DecoderLayer 396d4750664b01db0d7983b7afc6b40fb2c0cab7b63a4da0759c8caa5ada8fcf
gemma2 Gemma2Attention fd433fad0a9af6e87a744288b0e9c278218e78bd8783f7f3a61dbf9631d7a507
gemma2 Gemma2MLP a8f321e4267f972fcccccb70e5c8fb90fe445b57b62293a11843c2d675f556ff
gemma3 Gemma3DecoderLayer 8236f513b5d986a374e530f98a86555ba171dc26e509781295cd19978ad74c6b
gemma3 Gemma3Attention 3d73cc4a625d3e438888729c935dc5d7a9ad22bc6ddec793515c0d707c8e72f1
gemma3 Gemma3MLP 7799b63a98942d7730ec6529fea3526b94083048026a2a92cdf681e34436dfd4
"""

SOURCES: dict[str, frozenset[str]] = {
    f"transformers.models.{folder}.modeling_{folder}.{name}": frozenset(hashes)
    for folder, name, *hashes in map(str.split, _LINES.strip().splitlines())
}

# The classes behind a static cache, whose `update` weft's forwards do themselves. `Cache` changed beside it.
CACHES: dict[str, frozenset[str]] = {
    "StaticLayer": frozenset({"5ebbc474e9f8650499742908578837e119210bbb548d7f21fa30e566f9c9d740"}),
    "Cache": frozenset(
        {
            "d674e8009dc2f014853c96d851f2e2a9a63357800c48a2bf8cb6ed44933a3891",
            "a7ce58980a1383afd916078a484029b5e8e1707ec4c24167ceef2c9cc89454b0",
            "e4d7e95628437f44ce0d5ece96f5c385730ef476d721f6253ccd138269319347",
        }
    ),
}
