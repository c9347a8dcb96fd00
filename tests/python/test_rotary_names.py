"""Names of rotary kernels take tables and packed heads where their sources do."""

from __future__ import annotations

import torch
import weft


def rotated(x, table):
    """Interleaved pairs turned by a table [tokens, head_dim] of cosines and sines in turn."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    turns = torch.view_as_complex(table.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2)


def test_rotary_names_take_the_table_where_the_source_does():
    table, q, k = torch.randn(5, 16), torch.randn(5, 3, 16), torch.randn(5, 1, 16)
    first, second = q.bfloat16(), k.bfloat16()
    result = weft.names.rope_apply(table.bfloat16(), first, second)
    assert result.q is first and result.k is second
    torch.testing.assert_close(first.float(), rotated(q.bfloat16(), table.bfloat16()), atol=0.05, rtol=0.02)
    torch.testing.assert_close(second.float(), rotated(k.bfloat16(), table.bfloat16()), atol=0.05, rtol=0.02)

    v = torch.randn(5, 1, 16)
    keys, values = torch.zeros(5, 1, 16), torch.zeros(5, 1, 16)
    qkv = torch.cat((q, k, v), 1).flatten(1)
    split = weft.names.qkv_split_rope(qkv, table, keys, values)
    torch.testing.assert_close(split.q, rotated(q, table))
    torch.testing.assert_close(keys, rotated(k, table))
    assert torch.equal(values, v)


def test_an_image_s_rows_of_the_table_lie_behind_the_text_s():
    image, text = torch.randn(3, 1, 5, 2, 16).bfloat16(), torch.randn(3, 1, 3, 2, 16).bfloat16()
    weights, angles = 1 + torch.rand(4, 16), torch.randn(8, 8)
    table = torch.cat((angles.cos(), angles.sin()), -1)

    def expected(which):
        norm = torch.nn.functional.rms_norm
        parts = [
            norm(part[which].float(), (16,), weights[weight].bfloat16().float(), 1e-6)
            for part, weight in ((text, 2 + which), (image, which))
        ]
        return rotated(torch.cat(parts, 1), torch.stack((angles.cos(), angles.sin()), -1).flatten(-2))

    joint = weft.names.try_fused_flux2_qkv_epilogue(*image, *text, *weights.bfloat16(), table)
    torch.testing.assert_close(joint.q.float(), expected(0), atol=0.02, rtol=0.02)
    torch.testing.assert_close(joint.k.float(), expected(1), atol=0.02, rtol=0.02)
    assert torch.equal(joint.v, torch.cat((text[2], image[2]), 1))


def test_a_packed_projection_of_a_video_is_normed_and_turned():
    qkv, angles = torch.randn(1, 2, 3, 4, 3, 2, 16).bfloat16(), torch.randn(24, 8)
    tables = [
        torch.cat((half, half), -1).reshape(1, 2, 3, 4, 1, 16).bfloat16()
        for half in (angles.cos(), angles.sin())
    ]
    result = weft.names.flux3_video_qknorm_rope(qkv, *tables)
    cos, sin = (table.reshape(24, 1, 16).float() for table in tables)
    for at, name in enumerate("qk"):
        x = torch.nn.functional.rms_norm(qkv[..., at, :, :].reshape(24, 2, 16).float(), (16,), eps=1e-5)
        turned = x * cos + torch.cat((-x[..., 8:], x[..., :8]), -1) * sin
        torch.testing.assert_close(getattr(result, name).float(), turned, atol=0.02, rtol=0.02)
    assert torch.equal(result.v, qkv[..., 2, :, :].reshape(24, 2, 16))
