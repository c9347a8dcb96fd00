"""weft: fused kernels for transformer inference, each with an executable specification."""

# Rendered from the contracts by `python -m weft.stubs`.

from typing import Any, Literal, TypeVar, overload

from weft import names as names

_Array = TypeVar("_Array")
_DType = Any  # the framework's, or weft's name of it ("fp8_e4m3")

__version__: str
__all__: list[str]

def activation(
    x: _Array,
    add: _Array | None = None,
    bias: _Array | None = None,
    front: _Array | None = None,
    scale: _Array | None = None,
    *,
    activation: Literal["silu", "gelu_tanh", "gelu_erf", "gelu_quick", "sigmoid", "tanh", "relu", "relu2", "leaky_relu", "elu", "hardswish", "hardshrink", "none"] = "silu",
    alpha: float = 1.0,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = [front, act(x + add + bias)]

    Args:
        x: [... dim] fp32, bf16, fp16. What the activation is applied to.
        add: [... dim] fp32, bf16, fp16. Added to x first.
        bias: [dim] fp32, bf16, fp16. Added to every row, next.
        front: [... front_dim] fp32, bf16, fp16. Copied before the results of its row.
        scale: [1] fp32. The stored value times this is the real value. Only where out is stored in fewer
            bits.
        activation: The function. One of silu, gelu_tanh, gelu_erf, gelu_quick, sigmoid, tanh, relu, relu2,
            leaky_relu, elu, hardswish, hardshrink, none.
        alpha: Of leaky_relu, elu and hardshrink.
        rounding: Once, or as PyTorch's eager operators round. One of fused, eager.
        out: [... front_dim+dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The results. May be the memory of x
            or add.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: k·ε₃₂·|out|: k = 16 + 5·|t|·(1 − σ(t)) of sigmoids of t and what they multiply (2⁻¹²⁵
        beside it where the exponential overflows), 16 + 2·x² of gelu_erf below 0, 8 of tanh, elu and
        hardswish, 2 of the others; an eager gelu 8·ε₃₂·|x|; sums before it ε₃₂ each times the slope
        (eager ones are exact), fp8 3·ε₃₂.
    Replaces: torch.nn.functional's activations; silu_inplace, gelu_inplace, relu_inplace,
        fused_add_silu of VLA engines; fused_gelu_tanh_cat, bias_silu, relu2 of SGLang's diffusion
        kernels.
    """

def amax(
    x: _Array,
    amax: _Array,
) -> _Array:
    """amax = max(amax, max |x|)

    Args:
        x: [... dim] fp32, bf16, fp16. Any activation.
        amax: [1] fp32. The running maximum. Updated in place (JAX: returned).

    Returns:
        the result: amax.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: exact.
    Replaces: calibration of static fp8 scales; absmax reductions.
    """

class _AttentionResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def lse(self) -> Any: ...  # where it was asked for

@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    kv_lengths: _Array | None = None,
    key_mask: _Array | None = None,
    key_limits: _Array | None = None,
    sinks: _Array | None = None,
    block_table: _Array | None = None,
    cu_seqlens_q: _Array | None = None,
    cu_seqlens_k: _Array | None = None,
    q_scale: _Array | None = None,
    k_scale: _Array | None = None,
    v_scale: _Array | None = None,
    *,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    fp8_weights: bool = False,
    out: _Array | None = None,
    lse: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = softmax(scale * q k^T, over the keys that a query sees) v

    Args:
        q: [batch q_tokens kv_heads*group head_dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. Queries.
        k: [batch kv_tokens kv_heads head_dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. Keys; each key head
            serves `group` consecutive query heads; beside block_table a cache [pages page_size kv_heads
            head_dim]. Its dtype goes by that of q.
        v: [batch kv_tokens kv_heads v_dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. Values, as k lies; a value
            that is not finite may reach rows from which only `causal`, a window or key_limits hides its
            key. The dtype of k.
        kv_lengths: [batch] int32. Keys that exist, from the first; clamped to [0, kv_tokens], with pages to
            what a row of block_table holds, with cu_seqlens_k to the sequence's; `causal` and windows align
            to them; beside cu_seqlens_q one a sequence.
        key_mask: [batch kv_tokens] uint8. 0 hides a key from every query. Not beside block_table. Not
            beside cu_seqlens_q.
        key_limits: [batch q_tokens] int32. A query sees only the keys before its limit; clamped to [0,
            kv_tokens]; one row may serve all batches (stride 0).
        sinks: [kv_heads*group] fp32. A further logit of each head's softmax, without a value; neither
            scaled nor capped.
        block_table: [batch max_pages] int32. Makes k and v caches in pages: the page of keys [p *
            page_size, (p + 1) * page_size) of each batch, beside cu_seqlens_q of each sequence; entries for
            keys that do not exist are not read; -1: zeros, as, on a device, all that is no page. Numbers in
            [0, pages), or -1: none. Not beside key_mask. Only beside kv_lengths. Not beside cu_seqlens_k.
        cu_seqlens_q: [sequences+1] int32. Makes the one batch of q sequences, one behind the other: the
            first query of each, and the end. Numbers from 0 to q_tokens, none below the one before. Not
            beside key_mask.
        cu_seqlens_k: [sequences+1] int32. The first key of each sequence, and the end; without it, and
            without pages, all sequences have the same keys. Numbers from 0 to kv_tokens, none below the one
            before. Only beside cu_seqlens_q. Not beside block_table.
        q_scale: [kv_heads] fp32. What q's stored values are multiplied by, for each key head; one number
            for all is a view of stride 0. Only where q is stored in fewer bits.
        k_scale: [kv_heads] fp32. What k's stored values are multiplied by, for each key head; one number
            for all is a view of stride 0. Only where k is stored in fewer bits.
        v_scale: [kv_heads] fp32. What v's stored values are multiplied by, for each key head; one number
            for all is a view of stride 0. Only where v is stored in fewer bits.
        scale: Factor of the scores; 0 means 1/sqrt(head_dim).
        causal: Hide the keys after a query, aligned bottom-right: window_right = 0.
        window_left: Keys before its position that a query sees; -1: all.
        window_right: Keys after its position that a query sees; -1: all.
        softcap: Scores become softcap tanh(score / softcap) before masks; 0: none.
        fp8_weights: Q, k and v in fp8: the weights of the softmax may be rounded to e4m3, and products
            summed as tensor cores sum fp8, as FlashAttention 3's fp8 forward does (faster, less exact).
        out: [batch q_tokens kv_heads*group v_dim] fp32, bf16, fp16. Zeros where no key is seen. Its dtype
            goes by that of q.
        lse: [batch kv_heads*group q_tokens] fp32. Natural logarithm of the sum of exp(x) and exp(sink);
            where no key is seen the sink, or -inf. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, lse if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 16-bit: the weights p of a row are rounded to the input's dtype before the product with v,
        so half an ulp of p is allowed beside fp32 error: |out - ref| <= 1/2 ulp(out) + sum_j w_j
        (e^(d_j) A - 1 + h) |v_j| with w the exact weights, d_j = eps32 ((head_dim/4 + 16) scale sum_d
        |q_d k_jd| + 4 |x_j - m| + 2 |m| + 8) the error of a score, of which a soft cap passes on of the
        first term what its tanh does, and adds 10 eps32 softcap of its own, A = 1/sum_j w_j e^(-d_j)
        the error of the sum (a sink is one of its terms, without the first part of d_j), and h = half
        an ulp of the dtype + eps32 (kv_tokens/4 + 32); weights below 2^-25 (fp16, and beside fp8 keys)
        or 2^-118 (bf16) may be zero; fp32: the same without the rounding of p; fp8 q: p is rounded to
        out's dtype; fp8_weights: h has 2^-4 in place of that half ulp, weights below 2^-15 of the
        largest may be zero, and for what tensor cores lose of fp8's sums d_j grows by 2^-9 scale sum_d
        |q_d k_jd| for each 128 columns begun, h by 2^-9.
    Replaces: FlashAttention-2 (arXiv:2307.08691) and online softmax (arXiv:1805.02867); replaces
        scaled_dot_product_attention with full, causal and key-padding masks, MHA, GQA and MQA; windows
        and key lengths as flash_attn_func has them, pages (arXiv:2309.06180) and packed sequences as
        flash_attn_varlen_func and flash_attn_with_kvcache; the soft cap of Gemma 2 (arXiv:2408.00118),
        the sinks of gpt-oss (arXiv:2508.10925), the blockwise masks of pi0 (arXiv:2410.24164), fp8 with
        scales of heads as FlashAttention-3's (arXiv:2407.08608), the latent attention of DeepSeek-V2
        (arXiv:2405.04434).
    """
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    kv_lengths: _Array | None = None,
    key_mask: _Array | None = None,
    key_limits: _Array | None = None,
    sinks: _Array | None = None,
    block_table: _Array | None = None,
    cu_seqlens_q: _Array | None = None,
    cu_seqlens_k: _Array | None = None,
    q_scale: _Array | None = None,
    k_scale: _Array | None = None,
    v_scale: _Array | None = None,
    *,
    scale: float = 0.0,
    causal: bool = False,
    window_left: int = -1,
    window_right: int = -1,
    softcap: float = 0.0,
    fp8_weights: bool = False,
    out: _Array | None = None,
    lse: _Array | bool | None = None,
    out_dtype: _DType | None = None,
) -> _AttentionResult: ...

def channel_rms_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    length: _Array | None = None,
    *,
    eps: float = 1e-12,
    activation: Literal["none", "silu"] = "none",
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = act(x / max(‖x‖₂, eps) · √channels · weight + bias) over channels

    Args:
        x: [batch channels spatial] fp32, bf16, fp16. Channels first, or a view of channels last.
        weight: [channels] fp32, bf16, fp16. Absent: 1.
        bias: [channels] fp32, bf16, fp16. Absent: 0.
        length: [batch 1 spatial] fp32, bf16, fp16. Divides x; absent: max(‖x‖₂, eps).
        eps: The least length that is divided by.
        activation: Applied last. One of none, silu.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager.
        out: [batch channels spatial] fp32, bf16, fp16. The normalised tensor. May be the memory of x.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (24 + channels/32)·ε₃₂·|n·weight|, n = x/max(‖x‖₂, eps)·√channels, and 2·ε₃₂ of the
        result; SiLU as activation's, times 1.13; with rounding=eager none but SiLU's.
    Replaces: WanRMS_norm of diffusers; wan_rmsnorm_silu, wan_norm_silu_post, channel_rmsnorm_silu_nhwc
        of SGLang's diffusion kernels.
    """

def concat_pad(
    x: _Array,
    cache: _Array | None = None,
    *,
    front: int = 0,
    top: int = 0,
    bottom: int = 0,
    left: int = 0,
    right: int = 0,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = pad([cache, x])

    Args:
        x: [batch channels frames height width] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The new frames.
        cache: [batch channels cache_frames height width] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The frames
            before. The dtype of x.
        front: Frames of zeros before the cache.
        top: Rows of zeros above.
        bottom: Rows of zeros below.
        left: Columns of zeros before.
        right: Columns of zeros behind.
        out: [batch channels front+cache_frames+frames top+height+bottom left+width+right] fp32, bf16, fp16,
            fp8_e4m3, fp8_e5m2. All of them, with zeros around. The dtype of x.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: exact.
    Replaces: torch.cat and pad before causal 3-D convolutions; fused_causal_conv3d_cat_pad_cuda,
        cat_pad_channels_last_3d of SGLang's diffusion kernels.
    """

def copy(
    x: _Array | None = None,
    *,
    value: float = 0.0,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = x, or value

    Args:
        x: [...] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, int32, int64, uint8. What is copied; absent:
            value.
        value: Of every element, where there is no x.
        out: [...] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, int32, int64, uint8. The copy.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: exact: half an ulp of out where the dtypes differ.
    Replaces: torch.Tensor.copy_, fill_, to, contiguous; gpu_copy, gpu_strided_copy, gpu_cast_*,
        gpu_fill_neginf of VLA engines; mat_transpose_* of teaching libraries.
    """

def dequantize(
    x: _Array,
    scale: _Array | None = None,
    token_scale: _Array | None = None,
    group_scale: _Array | None = None,
    swizzled_scale: _Array | None = None,
    block_scale: _Array | None = None,
    *,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = x · scale

    Args:
        x: [... dim] fp8_e4m3, fp8_e5m2, int8, fp4_e2m1. The codes.
        scale: [1] fp32. The stored value times this is the real value. Only where x is stored in fewer
            bits. Not beside token_scale. Not beside block_scale.
        token_scale: [...] fp32. Each row's own scale, amax / max. Only where x is stored in fewer bits. Not
            beside scale. Not beside group_scale. Not beside swizzled_scale. Not beside block_scale.
        group_scale: [... ceil(dim/group)] fp32, fp8_e4m3, ue8m0. Each group's: fp32 for 128 columns,
            fp8_e4m3 for 16 (NVFP4), ue8m0 for 32 (MX). Only where x is stored in fewer bits. Its dtype goes
            by that of x. Not beside token_scale. Not beside swizzled_scale. Not beside block_scale.
        swizzled_scale: [pad(...,128) pad(ceil(dim/group),4)] fp32, fp8_e4m3, ue8m0. The same in tiles of
            128 rows by 4 groups, padding is 0. Only where x is stored in fewer bits. Its dtype goes by that
            of x. Not beside token_scale. Not beside group_scale. Not beside block_scale.
        block_scale: [ceil(.../128) ceil(dim/128)] fp32. Each block's of 128 rows by 128 columns. Its dtype
            goes by that of x. Not beside scale. Not beside token_scale. Not beside group_scale. Not beside
            swizzled_scale.
        out: [... dim] fp32, bf16, fp16. The real values.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: ε₃₂·|x·scale| (the fp32 product).
    Replaces: OCP 8-bit floating point and microscaling formats, NVFP4; dequantize_fp4_to_fp16,
        per_block_dequant.
    """

def embedding(
    ids: _Array,
    table: _Array,
    *,
    scale: float = 1.0,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out[…, :] = table[ids[…], :] · scale

    Args:
        ids: [...] int32, int64. Row numbers; -1: a row of zeros. Numbers in [0, vocab), or -1: none.
        table: [vocab dim] fp32, bf16, fp16. One row a token.
        scale: What every element is multiplied by.
        out: [... dim] fp32, bf16, fp16. The rows.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: ε₃₂·|table·scale| (the fp32 product); exact for scale 1.
    Replaces: lookup tables; torch.nn.functional.embedding with Gemma's √width.
    """

def euler_step(
    velocity: _Array,
    sample: _Array | None = None,
    conditional: _Array | None = None,
    *,
    step: float = 1.0,
    guidance: float = 1.0,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = sample + step · v, v = velocity + guidance · (conditional − velocity)

    Args:
        velocity: [... dim] fp32, bf16, fp16. The velocity; beside conditional the other one.
        sample: [... dim] fp32, bf16, fp16. What moves; absent: 0.
        conditional: [... dim] fp32, bf16, fp16. The velocity under the condition. The dtype of velocity.
        step: The length of the step.
        guidance: The weight of the condition.
        rounding: Once, or after every operation. One of fused, eager.
        out: [... dim] fp32, bf16, fp16. Where it moves to. May be the memory of sample or velocity or
            conditional.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: ε₃₂ of each product and sum, times what it is multiplied by later; eager: half an ulp of
        out.
    Replaces: gpu_euler_step, cfg_combine_into_residual of VLA engines; flow-matching Euler schedulers
        and classifier-free guidance of diffusers.
    """

class _GatedActivationResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def token_scale(self) -> Any: ...  # where it was asked for
    @property
    def group_scale(self) -> Any: ...  # where it was asked for
    @property
    def swizzled_scale(self) -> Any: ...  # where it was asked for

@overload
def gated_activation(
    x: _Array | None = None,
    gate: _Array | None = None,
    up: _Array | None = None,
    scale: _Array | None = None,
    channel_multiplier: _Array | None = None,
    gate_scale: _Array | None = None,
    up_scale: _Array | None = None,
    gate_bias: _Array | None = None,
    up_bias: _Array | None = None,
    *,
    activation: Literal["silu", "gelu_tanh", "gelu_erf", "gelu_quick", "sigmoid", "relu"] = "silu",
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    token_scale: None = None,
    group_scale: None = None,
    swizzled_scale: None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
) -> _Array:
    """out = act(gate) · up

    Args:
        x: [... 2*hidden] fp32, bf16, fp16. Gate, then up, in one row. Not beside gate. Not beside up.
        gate: [... hidden] fp32, bf16, fp16, fp4_e2m1. What the activation is applied to. Not beside x. Only
            beside up.
        up: [... hidden] fp32, bf16, fp16, fp4_e2m1. What it multiplies. Not beside x. Only beside gate. The
            dtype of gate.
        scale: [1] fp32. The stored value times this is the real value. Only where out is stored in fewer
            bits. Not beside token_scale.
        channel_multiplier: [hidden] fp32, bf16, fp16. Multiplies each column first: AWQ's inverse scales.
        gate_scale: [pad(...,128) pad(ceil(hidden/16),4)] fp8_e4m3. The scales of a gate of NVFP4. Only
            beside gate. Only where gate is stored in fewer bits.
        up_scale: [pad(...,128) pad(ceil(hidden/16),4)] fp8_e4m3. The scales of an up of NVFP4. Only beside
            gate_scale.
        gate_bias: [hidden] fp32, bf16, fp16. Added to every row of gate first.
        up_bias: [hidden] fp32, bf16, fp16. Added to every row of up first.
        activation: The activation. One of silu, gelu_tanh, gelu_erf, gelu_quick, sigmoid, relu.
        rounding: Once, or as PyTorch's operators. One of fused, eager.
        out: [... hidden] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp4_e2m1. The product. May be the
            memory of gate or up.
        token_scale: [...] fp32. Each row's own scale, amax / max. Only where out is stored in fewer bits.
            Not beside scale. Not beside group_scale. Not beside swizzled_scale. True asks for it.
        group_scale: [... ceil(hidden/group)] fp32, fp8_e4m3, ue8m0. Each group's: fp32 for 128 columns,
            fp8_e4m3 for 16 (NVFP4), ue8m0 for 32 (MX). Only where out is stored in fewer bits. Its dtype
            goes by that of out. Not beside token_scale. Not beside swizzled_scale. True asks for it.
        swizzled_scale: [pad(...,128) pad(ceil(hidden/group),4)] fp32, fp8_e4m3, ue8m0. The same in tiles of
            128 rows by 4 groups, padding is 0. Only where out is stored in fewer bits. Its dtype goes by
            that of out. Not beside token_scale. Not beside group_scale. True asks for it.
        out_dtype: dtype of out where it is allocated.
        group_scale_dtype: dtype of group_scale where it is allocated. It asks for it.
        swizzled_scale_dtype: dtype of swizzled_scale where it is allocated. It asks for it.

    Returns:
        a named tuple, or the one result: out, token_scale if asked for, group_scale if asked for,
            swizzled_scale if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (16 + 5·|t|·(1 − σ(t)))·ε₃₂·|act(gate)·up|, t the sigmoid's argument (gelu_erf: 16 +
        2·gate² for a negative gate; relu: 2), and 2⁻¹²⁵·|gate·up| where the exponential overflows;
        fewer bits add 2·ε₃₂, and a scale that is found its own error; biases ε₃₂ of each sum times the
        slope; with rounding=eager what the activation's rounding may change, and nothing else.
    Replaces: gated linear units (arXiv:2002.05202); gate_geglu*, geglu_fp8_static_fp16,
        silu_mul_split_fp8_fp16, silu_and_mul, gelu_and_mul; silu_mul_bitexact, bias_glu of SGLang's
        diffusion kernels.
    """
@overload
def gated_activation(
    x: _Array | None = None,
    gate: _Array | None = None,
    up: _Array | None = None,
    scale: _Array | None = None,
    channel_multiplier: _Array | None = None,
    gate_scale: _Array | None = None,
    up_scale: _Array | None = None,
    gate_bias: _Array | None = None,
    up_bias: _Array | None = None,
    *,
    activation: Literal["silu", "gelu_tanh", "gelu_erf", "gelu_quick", "sigmoid", "relu"] = "silu",
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    token_scale: _Array | bool | None = None,
    group_scale: _Array | bool | None = None,
    swizzled_scale: _Array | bool | None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
) -> _GatedActivationResult: ...

def gemm(
    a: _Array,
    b: _Array,
    a_scale: _Array | None = None,
    b_scale: _Array | None = None,
    a_token_scale: _Array | None = None,
    b_channel_scale: _Array | None = None,
    a_group_scale: _Array | None = None,
    b_block_scale: _Array | None = None,
    bias: _Array | None = None,
    up: _Array | None = None,
    up_scale: _Array | None = None,
    up_channel_scale: _Array | None = None,
    up_block_scale: _Array | None = None,
    up_bias: _Array | None = None,
    gate: _Array | None = None,
    residual: _Array | None = None,
    out_scale: _Array | None = None,
    a_swizzled_scale: _Array | None = None,
    b_group_scale: _Array | None = None,
    b_swizzled_scale: _Array | None = None,
    up_group_scale: _Array | None = None,
    up_swizzled_scale: _Array | None = None,
    b_group_zero: _Array | None = None,
    up_group_zero: _Array | None = None,
    *,
    activation: Literal["none", "gelu_tanh", "gelu_erf", "silu"] = "none",
    fast_accumulation: bool = False,
    group: int = 128,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = (act(a_scale * b_scale * (a @ b.T) + bias) [* (a_scale * up_scale * (a @ up.T) + up_bias)] *
        gate + residual) / out_scale

    Args:
        a: [... k] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp4_e2m1. Activations.
        b: [n k] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp4_e2m1, int4. Weights; a [k, n] matrix is
            passed as its transposed view.
        a_scale: [1] fp32. What a's stored values are multiplied by. Not beside a_token_scale.
        b_scale: [1] fp32. What b's stored values are multiplied by. Not beside b_channel_scale. Not beside
            b_block_scale.
        a_token_scale: [...] fp32. What each row of a is multiplied by, instead of a_scale. Only where a is
            stored in fewer bits. Not beside a_scale. Not beside a_group_scale. Not beside a_swizzled_scale.
        b_channel_scale: [n] fp32. What each row of b is multiplied by, instead of b_scale. Only where b is
            stored in fewer bits. Not beside b_scale. Not beside b_block_scale.
        a_group_scale: [... ceil(k/a_group)] fp32, fp8_e4m3, ue8m0. What each 128 columns of a row of a are
            multiplied by, instead of a_scale, of fp4_e2m1 each 16 (fp8_e4m3) or 32 (ue8m0); may be
            column-major. Its dtype goes by that of a. Not beside a_token_scale. Not beside
            a_swizzled_scale.
        b_block_scale: [ceil(n/128) ceil(k/128)] fp32. What each 128 rows by 128 columns of b are multiplied
            by, instead of b_scale. Its dtype goes by that of b. Not beside b_scale. Not beside
            b_channel_scale.
        bias: [n] fp32, bf16, fp16. Added before the activation.
        up: [n k] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp4_e2m1, int4. Weights of the product that
            the activation's value gates. The dtype of b.
        up_scale: [1] fp32. What up's stored values are multiplied by. Only beside up. Not beside
            up_channel_scale. Not beside up_block_scale.
        up_channel_scale: [n] fp32. What each row of up is multiplied by, instead of up_scale. Only beside
            up. Only where up is stored in fewer bits. Not beside up_scale. Not beside up_block_scale.
        up_block_scale: [ceil(n/128) ceil(k/128)] fp32. What each 128 rows by 128 columns of up are
            multiplied by, instead of up_scale. Only beside up. Its dtype goes by that of up. Not beside
            up_scale. Not beside up_channel_scale.
        up_bias: [n] fp32, bf16, fp16. Added to up's product. Only beside up.
        gate: [~... n] fp32, bf16, fp16. Multiplies what comes of the activation and up.
        residual: [~... n] fp32, bf16, fp16. Added then.
        out_scale: [1] fp32. The scale of an fp8 out. Only where out is stored in fewer bits.
        a_swizzled_scale: [pad(...,128) pad(ceil(k/a_group),4)] fp8_e4m3, ue8m0. The same in tiles of 128
            rows by 4 groups, instead of a_group_scale. Its dtype goes by that of a. Not beside
            a_group_scale. Not beside a_token_scale.
        b_group_scale: [n ceil(k/group)] fp32, bf16, fp16, fp8_e4m3, ue8m0. What each 16 columns of a row of
            fp4_e2m1 are multiplied by, with ue8m0 each 32, of int4 each `group`. Its dtype goes by that of
            b. Not beside b_swizzled_scale.
        b_swizzled_scale: [pad(n,128) pad(ceil(k/group),4)] fp8_e4m3, ue8m0. The same in tiles of 128 rows
            by 4 groups, instead of b_group_scale. Its dtype goes by that of b. Not beside b_group_scale.
        up_group_scale: [n ceil(k/group)] fp32, bf16, fp16, fp8_e4m3, ue8m0. What each 16 columns of a row
            of fp4_e2m1 are multiplied by, with ue8m0 each 32, of int4 each `group`. Its dtype goes by that
            of up. Only beside up. The dtype of b_group_scale. The dtype of b_swizzled_scale. Not beside
            up_swizzled_scale.
        up_swizzled_scale: [pad(n,128) pad(ceil(k/group),4)] fp8_e4m3, ue8m0. The same in tiles of 128 rows
            by 4 groups, instead of up_group_scale. Its dtype goes by that of up. Not beside up_group_scale.
            Only beside up. The dtype of b_group_scale. The dtype of b_swizzled_scale.
        b_group_zero: [n ceil(k/group)] int8. What is subtracted from each code of a group of int4; absent:
            0. Only beside b_group_scale. Its dtype goes by that of b.
        up_group_zero: [n ceil(k/group)] int8. What is subtracted from each code of a group of int4; absent:
            0. Only beside up_group_scale. Its dtype goes by that of up.
        activation: After the bias. One of none, gelu_tanh, gelu_erf, silu.
        fast_accumulation: Fp8: let the tensor cores keep their short accumulator over all of k (faster,
            less exact).
        group: Columns of int4 that share a scale: 32, 64 or 128.
        out: [... n] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The product after its epilogue. May be the memory
            of residual.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: u * sum|a*b| * scales + 2^-24 * (2|product| + |bias| + |residual|), through the
        activation's slope (at most 1.13) and 12 * 2^-24 of its argument. u = (k + 32) * 2^-24: fp32
        accumulation in any order; fp8 adds 2^-9, for the 13 fraction bits that Hopper's fp8 accumulator
        keeps until it is promoted to fp32; fast_accumulation adds 2^-8 of every 32nd partial sum;
        scales of groups and blocks add 4 * 2^-24; int4 beside 16 bits adds the rounding of a weight to
        a's dtype, 2^-8 (bf16) or 2^-11 (fp16), twice where its scale has another. gelu_tanh into 16 or
        8 bits: tanh to 2^-11 relative, as the hardware's instruction gives it. up and gate: each
        factor's error times the other, and 2^-24 of the product. A residual beside a 16-bit out,
        without a gate: the product may be rounded to out's dtype before the sum is (cuBLASLt does, on
        some shapes).
    Replaces: torch addmm, _scaled_mm, _int_mm and linear with their epilogues; cublasLtMatmul; gated
        linear units (arXiv:2002.05202).
    """

def group_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    *,
    groups: int = 32,
    eps: float = 1e-05,
    activation: Literal["none", "silu"] = "none",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = act((x − mean) / sqrt(var + eps) · weight + bias) by groups of channels

    Args:
        x: [batch channels spatial] fp32, bf16, fp16. Channels first, or a view of channels last.
        weight: [channels] fp32, bf16, fp16. Absent: 1.
        bias: [channels] fp32, bf16, fp16. Absent: 0.
        groups: Of channels.
        eps: Added to the variance.
        activation: Applied last. One of none, silu.
        out: [batch channels spatial] fp32, bf16, fp16. The normalised tensor. May be the memory of x.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: n = (x − mean)/sqrt(var + eps): 40·ε₃₂·mean|x|/sqrt(var + eps) and |n|·(64·ε₃₂ + what the
        mean's error is of the variance), times weight; 4·ε₃₂ of the result; SiLU as activation's, times
        1.13.
    Replaces: torch.nn.functional.group_norm; triton_group_norm_silu, group_norm_silu_4d and _rows of
        SGLang's diffusion kernels.
    """

def grouped_gemm(
    a: _Array,
    b: _Array,
    group_ends: _Array | None = None,
    counts: _Array | None = None,
    a_scale: _Array | None = None,
    a_group_scale: _Array | None = None,
    b_scale: _Array | None = None,
    b_block_scale: _Array | None = None,
    bias: _Array | None = None,
    up: _Array | None = None,
    up_scale: _Array | None = None,
    up_block_scale: _Array | None = None,
    up_bias: _Array | None = None,
    *,
    activation: Literal["none", "gelu_tanh", "gelu_erf", "silu"] = "none",
    expected_rows: int = 0,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = act(a_scale * b_scale[g] * (a @ b[g].T) + bias[g]) [* (a_scale * up_scale[g] * (a @ up[g].T) +
        up_bias[g])] for the rows of each group g

    Args:
        a: [groups rows k] bf16, fp16, fp8_e4m3. Activations; beside group_ends [m k], the groups' rows one
            after the other.
        b: [groups n k] bf16, fp16, fp8_e4m3. Weights; [groups, k, n] tensors are passed as their transposed
            view. The dtype of a.
        group_ends: [groups] int32. The row after the last of each group, whose first is where the one
            before ends. Numbers from 0 on up to m, none below the one before. Not beside counts.
        counts: [groups] int32. How many rows of each group are there, the first ones. Not beside
            group_ends.
        a_scale: [1] fp32. What a's stored values are multiplied by. Only where a is stored in fewer bits.
            Not beside a_group_scale.
        a_group_scale: [groups rows ceil(k/128)] fp32. What each 128 columns of a row of a are multiplied
            by, instead of a_scale; may be column-major; beside group_ends [m ceil(k/128)]. Only where a is
            stored in fewer bits. Not beside a_scale.
        b_scale: [groups] fp32. What the stored values of each group's b are multiplied by. Only where b is
            stored in fewer bits. Not beside b_block_scale.
        b_block_scale: [groups ceil(n/128) ceil(k/128)] fp32. What each 128 rows by 128 columns of b are
            multiplied by, instead of b_scale. Only where b is stored in fewer bits. Not beside b_scale.
        bias: [groups n] fp32, bf16, fp16. Added to b's product, before the activation.
        up: [groups n k] bf16, fp16, fp8_e4m3. Weights of the product that the activation's value gates. The
            dtype of b.
        up_scale: [groups] fp32. What the stored values of each group's up are multiplied by. Only beside
            up. Only where up is stored in fewer bits. Not beside up_block_scale.
        up_block_scale: [groups ceil(n/128) ceil(k/128)] fp32. What each 128 rows by 128 columns of up are
            multiplied by, instead of up_scale. Only beside up. Only where up is stored in fewer bits. Not
            beside up_scale.
        up_bias: [groups n] fp32, bf16, fp16. Added to up's product. Only beside up.
        activation: After the bias. One of none, gelu_tanh, gelu_erf, silu.
        expected_rows: About how many rows a group has; 0: as many as its share, or all of its own.
        out: [groups rows n] bf16, fp16. The products; rows of no group keep their bits; beside group_ends
            [m n].
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: u * sum|a*b| * scales + 2^-24 * (2|product| + |bias|), through the activation's slope (at
        most 1.13) and 12 * 2^-24 of its argument, as gemm's: u = (k + 32) * 2^-24; fp8 adds 2^-9,
        scales of groups and blocks 4 * 2^-24; gelu_tanh: tanh to 2^-11 relative. up: each factor's
        error times the other, and 2^-24 of the product.
    Replaces: torch.bmm, _grouped_mm and _scaled_grouped_mm; DeepGEMM's grouped products, contiguous and
        masked; the experts of mixture models (arXiv:2101.03961).
    """

def histogram(
    x: _Array,
    *,
    bins: int = 256,
    counts: _Array | None = None,
) -> _Array:
    """counts[v] = number of elements of x that are v

    Args:
        x: [... dim] int32, int64, uint8. The values, each in [0, bins). Numbers in [0, bins).
        bins: How many values there are.
        counts: [bins] int32. One a value.

    Returns:
        the result: counts.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: exact.
    Replaces: torch.bincount; histogram_i32 of teaching libraries.
    """

class _LayerNormResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def residual_out(self) -> Any: ...  # where it was asked for
    @property
    def token_scale(self) -> Any: ...  # where it was asked for
    @property
    def group_scale(self) -> Any: ...  # where it was asked for
    @property
    def swizzled_scale(self) -> Any: ...  # where it was asked for
    @property
    def out2(self) -> Any: ...  # where it was asked for

@overload
def layer_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    gate: _Array | None = None,
    mod_index: _Array | None = None,
    mod_scale: _Array | None = None,
    mod_shift: _Array | None = None,
    mod_scale2: _Array | None = None,
    mod_shift2: _Array | None = None,
    scale: _Array | None = None,
    *,
    mod_offset: float = 1.0,
    mod_tanh: bool = False,
    weight_offset: float = 0.0,
    eps: float = 1e-05,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    residual_out: None = None,
    token_scale: None = None,
    group_scale: None = None,
    swizzled_scale: None = None,
    out2: None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
    out2_dtype: _DType | None = None,
) -> _Array:
    """out = n · (mod_offset + mod_scale) + mod_shift, n = (r - mean(r)) / sqrt(var(r) + eps) · (weight +
        weight_offset) + bias, r = residual + gate · x

    Args:
        x: [... dim] fp32, bf16, fp16. The rows.
        weight: [dim] fp32, bf16, fp16. Absent: 1, without an offset.
        bias: [dim] fp32, bf16, fp16. Added after the weight.
        residual: [... dim] fp32, bf16, fp16. Added to x before the norm.
        gate: [~... dim] fp32, bf16, fp16. What x is multiplied by before the sum; absent: 1. Only beside
            residual.
        mod_index: [...] int32, int64. Each row's row of the tables mod_scale and mod_shift. Numbers in [0,
            table).
        mod_scale: [~... dim] fp32, bf16, fp16. With mod_offset, multiplies the row after the norm.
        mod_shift: [~... dim] fp32, bf16, fp16. Added then.
        mod_scale2: [~... dim] fp32, bf16, fp16. Mod_scale of out2. Only beside out2.
        mod_shift2: [~... dim] fp32, bf16, fp16. Mod_shift of out2. Only beside out2.
        scale: [1] fp32. The stored value times this is the real value. Only where out is stored in fewer
            bits. Not beside token_scale.
        mod_offset: Added to mod_scale and mod_scale2.
        mod_tanh: Tanh of mod_scale, instead of itself.
        weight_offset: Added to the weight.
        eps: Added to the variance.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager.
        out: [... dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp4_e2m1. The normalised rows. May be the
            memory of x or residual.
        residual_out: [... dim] fp32, bf16, fp16. Residual + gate · x, as the norm reads it. Only beside
            residual. The dtype of residual. True asks for it. May be the memory of residual or x.
        token_scale: [...] fp32. Each row's own scale, amax / max. Only where out is stored in fewer bits.
            Not beside scale. Not beside group_scale. Not beside swizzled_scale. True asks for it.
        group_scale: [... ceil(dim/group)] fp32, fp8_e4m3, ue8m0. Each group's: fp32 for 128 columns,
            fp8_e4m3 for 16 (NVFP4), ue8m0 for 32 (MX). Only where out is stored in fewer bits. Its dtype
            goes by that of out. Not beside token_scale. Not beside swizzled_scale. True asks for it.
        swizzled_scale: [pad(...,128) pad(ceil(dim/group),4)] fp32, fp8_e4m3, ue8m0. The same in tiles of
            128 rows by 4 groups, padding is 0. Only where out is stored in fewer bits. Its dtype goes by
            that of out. Not beside token_scale. Not beside group_scale. True asks for it.
        out2: [... dim] fp32, bf16, fp16. The same rows, modulated by mod_scale2 and mod_shift2. True asks
            for it.
        out_dtype: dtype of out where it is allocated.
        group_scale_dtype: dtype of group_scale where it is allocated. It asks for it.
        swizzled_scale_dtype: dtype of swizzled_scale where it is allocated. It asks for it.
        out2_dtype: dtype of out2 where it is allocated. It asks for it.

    Returns:
        a named tuple, or the one result: out, residual_out if asked for, token_scale if asked for,
            group_scale if asked for, swizzled_scale if asked for, out2 if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: with S = 1/√(var + eps), W = |weight + weight_offset| and k = 52 + dim/512 (what a sum's
        additions and the division may err): the mean errs by δ = k·ε₃₂·mean|r| (a single column's: 0),
        a difference by d = δ + ε₃₂·|r − mean|, S by s = (k + 6)/2 + S²·(δ²/2 + mean|r − mean|·d)
        relative; y by (S·W·d + (s + 5·ε₃₂)·|y − bias|) + ε₃₂·|y|; residual_out by ε₃₂·|residual +
        gate·x|; a modulation adds ε₃₂·(2·|n·(mod_offset + mod_scale)| + |y|); fp8 adds 2·ε₃₂·|y|, and
        the row's scale its own error; with rounding=eager k = 64 + dim/64: each of a thread's dim/128
        updates rounds the mean, every rounding on the way takes both ends of the interval, and
        residual_out is exact.
    Replaces: arXiv:1607.06450; layer_norm, layer_norm_fp8, residual_add_layer_norm*, ln_modulate;
        SigLIP, ViT.
    """
@overload
def layer_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    gate: _Array | None = None,
    mod_index: _Array | None = None,
    mod_scale: _Array | None = None,
    mod_shift: _Array | None = None,
    mod_scale2: _Array | None = None,
    mod_shift2: _Array | None = None,
    scale: _Array | None = None,
    *,
    mod_offset: float = 1.0,
    mod_tanh: bool = False,
    weight_offset: float = 0.0,
    eps: float = 1e-05,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    residual_out: _Array | bool | None = None,
    token_scale: _Array | bool | None = None,
    group_scale: _Array | bool | None = None,
    swizzled_scale: _Array | bool | None = None,
    out2: _Array | bool | None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
    out2_dtype: _DType | None = None,
) -> _LayerNormResult: ...

class _MergeAttentionStatesResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def lse(self) -> Any: ...  # where it was asked for

@overload
def merge_attention_states(
    a: _Array,
    lse_a: _Array,
    b: _Array,
    lse_b: _Array,
    *,
    out: _Array | None = None,
    lse: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = (e^lse_a · a + e^lse_b · b) / (e^lse_a + e^lse_b)

    Args:
        a: [batch tokens heads head_dim] fp32, bf16, fp16. One state's output.
        lse_a: [batch heads tokens] fp32. Its log-sum-exp.
        b: [batch tokens heads head_dim] fp32, bf16, fp16. The other state's output. The dtype of a.
        lse_b: [batch heads tokens] fp32. Its log-sum-exp.
        out: [batch tokens heads head_dim] fp32, bf16, fp16. The output over both sets of keys. May be the
            memory of a or b.
        lse: [batch heads tokens] fp32. Its log-sum-exp. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, lse if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (12 + |lse_a − lse_b|)·ε₃₂·(|p_a·a| + |p_b·b|), p the weights; lse: ε₃₂·(|lse| + 10).
    Replaces: merge_attn_states of vLLM and teaching libraries; merge_state of FlashInfer.
    """
@overload
def merge_attention_states(
    a: _Array,
    lse_a: _Array,
    b: _Array,
    lse_b: _Array,
    *,
    out: _Array | None = None,
    lse: _Array | bool | None = None,
    out_dtype: _DType | None = None,
) -> _MergeAttentionStatesResult: ...

def modulate(
    x: _Array,
    index: _Array | None = None,
    scale: _Array | None = None,
    shift: _Array | None = None,
    *,
    offset: float = 1.0,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = x · (offset + scale) + shift

    Args:
        x: [... dim] fp32, bf16, fp16. The rows.
        index: [...] int32, int64. Each row's row of the tables scale and shift. Numbers in [0, table).
        scale: [~... dim] fp32, bf16, fp16. With offset, multiplies x; absent: 1 in all.
        shift: [~... dim] fp32, bf16, fp16. Added then.
        offset: Added to scale.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager.
        out: [... dim] fp32, bf16, fp16. The modulated rows. May be the memory of x or shift.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: ε₃₂·(2·|x·(offset + scale)| + |out|): the factor, the product and the sum round once each;
        with rounding=eager none: every step is rounded to out's dtype.
    Replaces: fuse_scale_shift, modulate_scale_shift, indexed_scale_shift of diffusion engines; x * (1 +
        scale) + shift of diffusers' adaptive norms.
    """

class _NmsResult(tuple[Any, ...]):
    @property
    def keep(self) -> Any: ...
    @property
    def count(self) -> Any: ...

def nms(
    boxes: _Array,
    scores: _Array,
    *,
    threshold: float = 0.5,
    keep: _Array | None = None,
    count: _Array | None = None,
    keep_dtype: _DType | None = None,
) -> _NmsResult:
    """keep = boxes that no kept box of a higher score overlaps

    Args:
        boxes: [n 4] fp32. Corners: x1, y1, x2, y2.
        scores: [n] fp32, bf16, fp16. The higher first.
        threshold: Of intersection over union.
        keep: [n] int32, int64. Indices of the kept boxes, then −1.
        count: [1] int32. How many are kept.
        keep_dtype: dtype of keep where it is allocated.

    Returns:
        a named tuple, or the one result: keep, count.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: exact.
    Replaces: torchvision.ops.nms; nms of teaching libraries.
    """

def patch_im2col(
    image: _Array,
    *,
    patch: int = 14,
    scale: float = 1.0,
    shift: float = 0.0,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out[view·row·col, py·px·channel] = image · scale + shift

    Args:
        image: [views rows*patch cols*patch channels] fp32, bf16, fp16, uint8. Pixels, channels last.
        patch: A patch's height and width.
        scale: What each pixel is multiplied by.
        shift: What is added then.
        out: [views*rows*cols patch*patch*channels] fp32, bf16, fp16. One patch a row.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 2·ε₃₂·(|image·scale| + |shift|).
    Replaces: patch_im2col of vision encoders (ViT, SigLIP), there for 224 by 224 by 3 and patch 14.
    """

class _QkNormRopeResult(tuple[Any, ...]):
    @property
    def q_out(self) -> Any: ...
    @property
    def k_cache(self) -> Any: ...  # where it was asked for
    @property
    def v_cache(self) -> Any: ...  # where it was asked for
    @property
    def k_out(self) -> Any: ...  # where it was asked for
    @property
    def v_out(self) -> Any: ...  # where it was asked for

@overload
def qk_norm_rope(
    q: _Array,
    k: _Array | None = None,
    v: _Array | None = None,
    q_weight: _Array | None = None,
    k_weight: _Array | None = None,
    positions: _Array | None = None,
    cos: _Array | None = None,
    sin: _Array | None = None,
    frequencies: _Array | None = None,
    head_cos: _Array | None = None,
    head_sin: _Array | None = None,
    positions2: _Array | None = None,
    positions3: _Array | None = None,
    slots: _Array | None = None,
    k_cache: _Array | None = None,
    v_cache: _Array | None = None,
    k_scale: _Array | None = None,
    v_scale: _Array | None = None,
    *,
    pairs: Literal["half", "interleaved"] = "half",
    base: float = 10000.0,
    rotary_dim: int = 0,
    norm: Literal["head", "row", "none"] = "head",
    eps: float = 1e-06,
    weight_offset: float = 0.0,
    prefix: int = 0,
    start: int = 0,
    section2: int = 0,
    section3: int = 0,
    sections: Literal["blocks", "alternate"] = "blocks",
    rounding: Literal["fused", "eager", "eager_cast"] = "fused",
    addcmul: bool = False,
    q_out: _Array | None = None,
    k_out: None = None,
    v_out: None = None,
    q_out_dtype: _DType | None = None,
) -> _Array:
    """q_out = rope(norm(q)); k_out, k_cache[slots] = rope(norm(k)); v_out, v_cache[slots] = v

    Args:
        q: [... tokens q_heads head_dim] fp32, bf16, fp16. The queries.
        k: [... tokens kv_heads head_dim] fp32, bf16, fp16. The keys. The dtype of q.
        v: [... tokens kv_heads head_dim] fp32, bf16, fp16. The values. Only beside k. The dtype of q.
        q_weight: [q_weights*head_dim] fp32, bf16, fp16. One head's weight, or all heads'.
        k_weight: [k_weights*head_dim] fp32, bf16, fp16. The same of the keys. Only beside k.
        positions: [... tokens] int32, int64. Each token's position. Numbers in [0, table). Not beside
            head_cos.
        cos: [table half] fp32, bf16, fp16. Cosines by position, instead of computed ones. Only beside sin.
            Not beside frequencies. Not beside head_cos.
        sin: [table half] fp32, bf16, fp16. Sines by position. Only beside cos. The dtype of cos.
        frequencies: [half] fp32. Angle of each pair at position 1, instead of the base's. Not beside cos.
            Not beside head_cos.
        head_cos: [... tokens q_heads half] fp32, bf16, fp16. Cosines of each token's every head. Only
            beside head_sin. Not beside cos. Not beside frequencies. Not beside positions.
        head_sin: [... tokens q_heads half] fp32, bf16, fp16. Their sines. Only beside head_cos. The dtype
            of head_cos.
        positions2: [... tokens] int32, int64. The second part of each position. Numbers in [0, table). Only
            beside positions. The dtype of positions.
        positions3: [... tokens] int32, int64. The third part. Numbers in [0, table). Only beside positions.
            The dtype of positions.
        slots: [... tokens] int32, int64. Each token's row of the caches; -1: none. Different numbers in [0,
            pages*page_size), or -1: none.
        k_cache: [pages page_size kv_heads head_dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The keys' cache.
            Only beside slots. Only beside k. Its dtype goes by that of q. Updated in place (JAX: returned).
        v_cache: [pages page_size kv_heads head_dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The values'
            cache. Only beside slots. Only beside v. Its dtype goes by that of q. Updated in place (JAX:
            returned).
        k_scale: [k_scales] fp32. Of the keys in fp8; absent: 1. Only beside k_cache. Only where k_cache is
            stored in fewer bits.
        v_scale: [v_scales] fp32. Of the values in fp8; absent: 1. Only beside v_cache. Only where v_cache
            is stored in fewer bits.
        pairs: Which elements of a head form a pair. One of half, interleaved.
        base: The wavelengths' base.
        rotary_dim: Elements of a head that turn; 0: all.
        norm: Over each head, all heads of a token, or none. One of head, row, none.
        eps: Added to the mean of squares.
        weight_offset: Added to the weights.
        prefix: Tokens of each sequence that do not turn.
        start: The position of the first token that turns.
        section2: Pairs that turn by positions2.
        section3: Pairs that turn by positions3.
        sections: How the sections share the pairs. One of blocks, alternate.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager, eager_cast.
        addcmul: With eager: the second product is not rounded.
        q_out: [... tokens q_heads head_dim] fp32, bf16, fp16. The queries, turned. The dtype of q. May be
            the memory of q.
        k_out: [... tokens kv_heads head_dim] fp32, bf16, fp16. The keys, turned. Only beside k. The dtype
            of q. True asks for it. May be the memory of k.
        v_out: [... tokens kv_heads head_dim] fp32, bf16, fp16. The values, as they are. Only beside v. The
            dtype of q. True asks for it. May be the memory of v.
        q_out_dtype: dtype of q_out where it is allocated.

    Returns:
        a named tuple, or the one result: q_out, k_cache if asked for, v_cache if asked for, k_out if asked
            for, v_out if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (32 + count/1024)·ε₃₂ of a normed element, then 8·ε₃₂·(|a·cos| + |b·sin|); V exact; with
        rounding=eager 49·ε₃₂ of a normed element, and every rounding then takes both ends of that.
    Replaces: RMSNorm (arXiv:1910.07467) of heads, RoFormer (arXiv:2104.09864), paged caches;
        fused_qk_norm_rope, fused_inplace_qknorm_rope, ltx2_qknorm_split_rope.
    """
@overload
def qk_norm_rope(
    q: _Array,
    k: _Array | None = None,
    v: _Array | None = None,
    q_weight: _Array | None = None,
    k_weight: _Array | None = None,
    positions: _Array | None = None,
    cos: _Array | None = None,
    sin: _Array | None = None,
    frequencies: _Array | None = None,
    head_cos: _Array | None = None,
    head_sin: _Array | None = None,
    positions2: _Array | None = None,
    positions3: _Array | None = None,
    slots: _Array | None = None,
    k_cache: _Array | None = None,
    v_cache: _Array | None = None,
    k_scale: _Array | None = None,
    v_scale: _Array | None = None,
    *,
    pairs: Literal["half", "interleaved"] = "half",
    base: float = 10000.0,
    rotary_dim: int = 0,
    norm: Literal["head", "row", "none"] = "head",
    eps: float = 1e-06,
    weight_offset: float = 0.0,
    prefix: int = 0,
    start: int = 0,
    section2: int = 0,
    section3: int = 0,
    sections: Literal["blocks", "alternate"] = "blocks",
    rounding: Literal["fused", "eager", "eager_cast"] = "fused",
    addcmul: bool = False,
    q_out: _Array | None = None,
    k_out: _Array | bool | None = None,
    v_out: _Array | bool | None = None,
    q_out_dtype: _DType | None = None,
) -> _QkNormRopeResult: ...

class _QkvSplitRopeResult(tuple[Any, ...]):
    @property
    def q(self) -> Any: ...
    @property
    def k_cache(self) -> Any: ...
    @property
    def v_cache(self) -> Any: ...

def qkv_split_rope(
    qkv: _Array,
    k_cache: _Array,
    v_cache: _Array,
    cache_offset_add: _Array | None = None,
    positions: _Array | None = None,
    cos: _Array | None = None,
    sin: _Array | None = None,
    *,
    pairs: Literal["half", "interleaved"] = "half",
    base: float = 10000.0,
    rotary_dim: int = 0,
    cache_offset: int = 0,
    rotate: bool = True,
    q: _Array | None = None,
    q_dtype: _DType | None = None,
) -> _QkvSplitRopeResult:
    """q = rope(Q); k_cache[first + t] = rope(K); v_cache[first + t] = V

    Args:
        qkv: [tokens (q_heads+2*kv_heads)*head_dim] fp32, bf16, fp16. The packed projection.
        k_cache: [cache_tokens kv_heads head_dim] fp32, bf16, fp16. The keys' cache. The dtype of qkv.
            Updated in place (JAX: returned).
        v_cache: [cache_tokens kv_heads head_dim] fp32, bf16, fp16. The values' cache. The dtype of qkv.
            Updated in place (JAX: returned).
        cache_offset_add: [1] int32, int64. Added to cache_offset, read on the device.
        positions: [tokens] int32, int64. Each token's position. Numbers in [0, table).
        cos: [table half] fp32, bf16, fp16. Cosines by position, instead of computed ones. Only beside sin.
        sin: [table half] fp32, bf16, fp16. Sines by position. Only beside cos. The dtype of cos.
        pairs: Which elements of a head form a pair. One of half, interleaved.
        base: The wavelengths' base.
        rotary_dim: Elements of a head that turn; 0: all.
        cache_offset: The first token's cache row.
        rotate: Queries and keys turn; else they are copied.
        q: [tokens q_heads head_dim] fp32, bf16, fp16. The rotated queries. The dtype of qkv.
        q_dtype: dtype of q where it is allocated.

    Returns:
        a named tuple, or the one result: q, k_cache, v_cache.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 8·ε₃₂·(|a·cos| + |b·sin|) for Q and K; V exact, and all with rotate=false.
    Replaces: RoFormer (arXiv:2104.09864); qkv_split, qkv_split_rope, qkv_split_rope_kvcache_fp16.
    """

class _QuantizeResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def token_scale(self) -> Any: ...  # where it was asked for
    @property
    def group_scale(self) -> Any: ...  # where it was asked for
    @property
    def swizzled_scale(self) -> Any: ...  # where it was asked for
    @property
    def tensor_scale(self) -> Any: ...  # where it was asked for
    @property
    def block_scale(self) -> Any: ...  # where it was asked for

@overload
def quantize(
    x: _Array,
    scale: _Array | None = None,
    channel_multiplier: _Array | None = None,
    *,
    out: _Array | None = None,
    token_scale: None = None,
    group_scale: None = None,
    swizzled_scale: None = None,
    tensor_scale: None = None,
    block_scale: None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
) -> _Array:
    """out = saturate(x · channel_multiplier / scale)

    Args:
        x: [... dim] fp32, bf16, fp16. What to quantise.
        scale: [1] fp32. The stored value times this is the real value. Only where out is stored in fewer
            bits. Not beside token_scale. Not beside tensor_scale. Not beside block_scale.
        channel_multiplier: [dim] fp32, bf16, fp16. Multiplies each column first: AWQ's inverse scales.
        out: [... dim] fp8_e4m3, fp8_e5m2, int8, fp4_e2m1. The codes; times their scales they are x again.
        token_scale: [...] fp32. Each row's own scale, amax / max. Only where out is stored in fewer bits.
            Not beside scale. Not beside group_scale. Not beside swizzled_scale. Not beside tensor_scale.
            Not beside block_scale. True asks for it.
        group_scale: [... ceil(dim/group)] fp32, fp8_e4m3, ue8m0. Each group's: fp32 for 128 columns,
            fp8_e4m3 for 16 (NVFP4), ue8m0 for 32 (MX). Only where out is stored in fewer bits. Its dtype
            goes by that of out. Not beside token_scale. Not beside swizzled_scale. Not beside block_scale.
            True asks for it.
        swizzled_scale: [pad(...,128) pad(ceil(dim/group),4)] fp32, fp8_e4m3, ue8m0. The same in tiles of
            128 rows by 4 groups, padding is 0. Only where out is stored in fewer bits. Its dtype goes by
            that of out. Not beside token_scale. Not beside group_scale. Not beside block_scale. True asks
            for it.
        tensor_scale: [1] fp32. The tensor's scale, found: amax / max. Not beside scale. Not beside
            token_scale. Not beside block_scale. True asks for it.
        block_scale: [ceil(.../128) ceil(dim/128)] fp32. Each block's of 128 rows by 128 columns. Its dtype
            goes by that of out. Not beside scale. Not beside token_scale. Not beside group_scale. Not
            beside swizzled_scale. Not beside tensor_scale. True asks for it.
        out_dtype: dtype of out where it is allocated.
        group_scale_dtype: dtype of group_scale where it is allocated. It asks for it.
        swizzled_scale_dtype: dtype of swizzled_scale where it is allocated. It asks for it.

    Returns:
        a named tuple, or the one result: out, token_scale if asked for, group_scale if asked for,
            swizzled_scale if asked for, tensor_scale if asked for, block_scale if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: none: the fp32 operations are the reference's own, in its order.
    Replaces: OCP 8-bit floating point and microscaling formats, NVFP4; quantize_fp8*, cast_fp16_fp8,
        quantize_bf16_to_nvfp4*, quantize_fp4_dynamic*, scaled_fp8_quant,
        dynamic_per_token_scaled_fp8_quant, scaled_int8_quant, per_token_group_quant_8bit,
        scaled_fp4_quant, mxfp8_quantize.
    """
@overload
def quantize(
    x: _Array,
    scale: _Array | None = None,
    channel_multiplier: _Array | None = None,
    *,
    out: _Array | None = None,
    token_scale: _Array | bool | None = None,
    group_scale: _Array | bool | None = None,
    swizzled_scale: _Array | bool | None = None,
    tensor_scale: _Array | bool | None = None,
    block_scale: _Array | bool | None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
) -> _QuantizeResult: ...

def reduce(
    x: _Array,
    factor: _Array | None = None,
    *,
    kind: Literal["sum", "mean", "max", "amax"] = "sum",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = sum, mean, max or max |·| of x · factor

    Args:
        x: [... dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8. What is reduced.
        factor: [... dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8. Multiplies x, element by element. The
            dtype of x.
        kind: What is found. One of sum, mean, max, amax.
        out: [...] fp32, bf16, fp16, int32, int64. One result a row.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (64 + n/2²⁰)·ε₃₂·Σ|x·factor| for n terms, 2·ε₃₂ of a mean's quotient; maxima exact, with a
        factor within ε₃₂; int8 exact but for its rounding to a floating dtype.
    Replaces: torch.sum, mean, amax, dot; block_all_reduce_sum_* and dot_prod_* of teaching libraries;
        row statistics.
    """

def residual_add(
    x: _Array,
    residual: _Array,
    bias: _Array | None = None,
    index: _Array | None = None,
    gate: _Array | None = None,
    *,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = (x + bias) · gate + residual

    Args:
        x: [... dim] fp32, bf16, fp16. The sub-layer's result.
        residual: [... dim] fp32, bf16, fp16. The stream it is added to.
        bias: [dim] fp32, bf16, fp16. Added to every row.
        index: [...] int32, int64. Each row's row of the table gate. Numbers in [0, table). Only beside
            gate.
        gate: [~... dim] fp32, bf16, fp16. Multiplies x + bias; absent: 1.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager.
        out: [... dim] fp32, bf16, fp16. The sum. May be the memory of x or residual.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: half an ulp of out, and ε₃₂ for each fp32 operation before the last: of |x + bias| times
        |gate|, of |(x + bias)·gate|, of |out|; with rounding=eager none.
    Replaces: bias_residual, residual_add of VLA engines; residual_gate_add, indexed_gate of diffusion
        engines; torch.add, torch.addcmul.
    """

class _RmsNormResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def residual_out(self) -> Any: ...  # where it was asked for
    @property
    def token_scale(self) -> Any: ...  # where it was asked for
    @property
    def group_scale(self) -> Any: ...  # where it was asked for
    @property
    def swizzled_scale(self) -> Any: ...  # where it was asked for
    @property
    def out2(self) -> Any: ...  # where it was asked for

@overload
def rms_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    gate: _Array | None = None,
    mod_index: _Array | None = None,
    mod_scale: _Array | None = None,
    mod_shift: _Array | None = None,
    mod_scale2: _Array | None = None,
    mod_shift2: _Array | None = None,
    scale: _Array | None = None,
    *,
    mod_offset: float = 1.0,
    mod_tanh: bool = False,
    weight_offset: float = 0.0,
    eps: float = 1e-06,
    rounding: Literal["fused", "eager", "eager_cast"] = "fused",
    out: _Array | None = None,
    residual_out: None = None,
    token_scale: None = None,
    group_scale: None = None,
    swizzled_scale: None = None,
    out2: None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
    out2_dtype: _DType | None = None,
) -> _Array:
    """out = n · (mod_offset + mod_scale) + mod_shift, n = r / sqrt(mean(r²) + eps) · (weight +
        weight_offset) + bias, r = residual + gate · x

    Args:
        x: [... dim] fp32, bf16, fp16. The rows.
        weight: [dim] fp32, bf16, fp16. Absent: 1, without an offset.
        bias: [dim] fp32, bf16, fp16. Added after the weight.
        residual: [... dim] fp32, bf16, fp16. Added to x before the norm.
        gate: [~... dim] fp32, bf16, fp16. What x is multiplied by before the sum; absent: 1. Only beside
            residual.
        mod_index: [...] int32, int64. Each row's row of the tables mod_scale and mod_shift. Numbers in [0,
            table).
        mod_scale: [~... dim] fp32, bf16, fp16. With mod_offset, multiplies the row after the norm.
        mod_shift: [~... dim] fp32, bf16, fp16. Added then.
        mod_scale2: [~... dim] fp32, bf16, fp16. Mod_scale of out2. Only beside out2.
        mod_shift2: [~... dim] fp32, bf16, fp16. Mod_shift of out2. Only beside out2.
        scale: [1] fp32. The stored value times this is the real value. Only where out is stored in fewer
            bits. Not beside token_scale.
        mod_offset: Added to mod_scale and mod_scale2.
        mod_tanh: Tanh of mod_scale, instead of itself.
        weight_offset: Added to the weight.
        eps: Added to the mean square.
        rounding: Once at the end, or as PyTorch's chain. One of fused, eager, eager_cast.
        out: [... dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2, int8, fp4_e2m1. The normalised rows. May be the
            memory of x or residual.
        residual_out: [... dim] fp32, bf16, fp16. Residual + gate · x, as the norm reads it. Only beside
            residual. The dtype of residual. True asks for it. May be the memory of residual or x.
        token_scale: [...] fp32. Each row's own scale, amax / max. Only where out is stored in fewer bits.
            Not beside scale. Not beside group_scale. Not beside swizzled_scale. True asks for it.
        group_scale: [... ceil(dim/group)] fp32, fp8_e4m3, ue8m0. Each group's: fp32 for 128 columns,
            fp8_e4m3 for 16 (NVFP4), ue8m0 for 32 (MX). Only where out is stored in fewer bits. Its dtype
            goes by that of out. Not beside token_scale. Not beside swizzled_scale. True asks for it.
        swizzled_scale: [pad(...,128) pad(ceil(dim/group),4)] fp32, fp8_e4m3, ue8m0. The same in tiles of
            128 rows by 4 groups, padding is 0. Only where out is stored in fewer bits. Its dtype goes by
            that of out. Not beside token_scale. Not beside group_scale. True asks for it.
        out2: [... dim] fp32, bf16, fp16. The same rows, modulated by mod_scale2 and mod_shift2. True asks
            for it.
        out_dtype: dtype of out where it is allocated.
        group_scale_dtype: dtype of group_scale where it is allocated. It asks for it.
        swizzled_scale_dtype: dtype of swizzled_scale where it is allocated. It asks for it.
        out2_dtype: dtype of out2 where it is allocated. It asks for it.

    Returns:
        a named tuple, or the one result: out, residual_out if asked for, token_scale if asked for,
            group_scale if asked for, swizzled_scale if asked for, out2 if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (k·|y − bias| + |y|)·ε₃₂, k = 32 + dim/1024: half the error of the sum of squares (33 +
        dim/512 additions in a thread, 14 between threads) and of the mean, and 5 roundings after it;
        residual_out by ε₃₂·|residual + gate·x|; a modulation adds ε₃₂·(2·|n·(mod_offset + mod_scale)| +
        |y|); fp8 adds 2·ε₃₂·|y|, and the row's scale its own error; with rounding=eager k = 48 (a
        reciprocal root of 2 ulp), and every rounding on the way takes both ends of the interval;
        residual_out is exact then.
    Replaces: arXiv:1910.07467; rms_norm, rms_norm_fp8, residual_add_rms_norm*, fused_add_rms_norm,
        rms_norm_dynamic_per_token_quant; Gemma, Llama and T5 norms.
    """
@overload
def rms_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    gate: _Array | None = None,
    mod_index: _Array | None = None,
    mod_scale: _Array | None = None,
    mod_shift: _Array | None = None,
    mod_scale2: _Array | None = None,
    mod_shift2: _Array | None = None,
    scale: _Array | None = None,
    *,
    mod_offset: float = 1.0,
    mod_tanh: bool = False,
    weight_offset: float = 0.0,
    eps: float = 1e-06,
    rounding: Literal["fused", "eager", "eager_cast"] = "fused",
    out: _Array | None = None,
    residual_out: _Array | bool | None = None,
    token_scale: _Array | bool | None = None,
    group_scale: _Array | bool | None = None,
    swizzled_scale: _Array | bool | None = None,
    out2: _Array | bool | None = None,
    out_dtype: _DType | None = None,
    group_scale_dtype: _DType | None = None,
    swizzled_scale_dtype: _DType | None = None,
    out2_dtype: _DType | None = None,
) -> _RmsNormResult: ...

def rope(
    x: _Array,
    positions: _Array | None = None,
    cos: _Array | None = None,
    sin: _Array | None = None,
    *,
    pairs: Literal["half", "interleaved"] = "half",
    base: float = 10000.0,
    rotary_dim: int = 0,
    start: int = 0,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """(a, b) of pair i → (a·cos θ − b·sin θ, b·cos θ + a·sin θ), θ = position · base^(−2i/rotary_dim)

    Args:
        x: [... tokens heads head_dim] fp32, bf16, fp16. Queries or keys.
        positions: [... tokens] int32, int64. Each token's position. Numbers in [0, table).
        cos: [table half] fp32, bf16, fp16. Cosines by position, instead of computed ones. Only beside sin.
        sin: [table half] fp32, bf16, fp16. Sines by position. Only beside cos. The dtype of cos.
        pairs: Which elements of a head form a pair. One of half, interleaved.
        base: The wavelengths' base.
        rotary_dim: Elements of a head that turn; 0: all.
        start: The first token's position.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager.
        out: [... tokens heads head_dim] fp32, bf16, fp16. The rotated heads. The dtype of x. May be the
            memory of x.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 8·ε₃₂·(|a·cos| + |b·sin|); with rounding=eager none.
    Replaces: RoFormer (arXiv:2104.09864); rope_apply, rope_rotate_half_fp16, apply_rotary_pos_emb,
        rope_rotate_half_bitexact.
    """

class _ScaleLayoutResult(tuple[Any, ...]):
    @property
    def to_swizzled(self) -> Any: ...  # where it was asked for
    @property
    def to_linear(self) -> Any: ...  # where it was asked for

@overload
def scale_layout(
    linear: _Array | None = None,
    swizzled: _Array | None = None,
    *,
    to_swizzled: None = None,
    to_linear: None = None,
) -> _Array:
    """to_swizzled = tiles of linear, or to_linear = rows of swizzled

    Args:
        linear: [... groups] fp8_e4m3, uint8, ue8m0. The scales of rows. Only beside to_swizzled. Not beside
            swizzled.
        swizzled: [pad(...,128) pad(groups,4)] fp8_e4m3, uint8, ue8m0. The scales in tiles. Only beside
            to_linear. Not beside linear.
        to_swizzled: [pad(...,128) pad(groups,4)] fp8_e4m3, uint8, ue8m0. Linear in tiles, padded by 0. Only
            beside linear. The dtype of linear. True asks for it.
        to_linear: [... groups] fp8_e4m3, uint8, ue8m0. Swizzled by rows, without the padding. Only beside
            swizzled. The dtype of swizzled. True asks for it.

    Returns:
        a named tuple, or the one result: to_swizzled if asked for, to_linear if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: none: bytes are copied.
    Replaces: reshape_linear_scales_to_sfa, sfa_size_bytes, swizzle_blockscale,
        nvfp4_block_scale_interleave.
    """
@overload
def scale_layout(
    linear: _Array | None = None,
    swizzled: _Array | None = None,
    *,
    to_swizzled: _Array | bool | None = None,
    to_linear: _Array | bool | None = None,
) -> _ScaleLayoutResult: ...

def softmax(
    x: _Array,
    *,
    scale: float = 1.0,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = exp(scale·x - max) / sum(exp(scale·x - max))

    Args:
        x: [... dim] fp32, bf16, fp16. Logits.
        scale: Multiplies the logits.
        out: [... dim] fp32, bf16, fp16. Weights. May be the memory of x.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: y·ε₃₂·(k + 4·t + 4·T) + 2⁻¹²⁵, t = |scale·x − max| the element's exponent, T its mean over
        the row weighted by y, k = 150 + dim/256: what an approximate exponential (4·ε₃₂ each), the
        additions of the sum in and between threads, each of which may rescale, and the last two
        roundings may err.
    Replaces: softmax, online softmax (arXiv:1805.02867); torch.softmax(x * scale, -1).
    """

def timestep_embedding(
    t: _Array,
    *,
    dim: int = 256,
    scale: float = 1.0,
    max_period: float = 10000.0,
    downscale: float = 0.0,
    cos_first: bool = False,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = [sin θ, cos θ], θ_i = scale · t · max_period^(−i / (half − downscale))

    Args:
        t: [batch] fp32, bf16, fp16, int32, int64. The numbers.
        dim: Columns of out.
        scale: Multiplies every angle.
        max_period: The longest wavelength, over 2π.
        downscale: Taken from the number of wavelengths.
        cos_first: Cosines before sines.
        out: [batch dim] fp32, bf16, fp16. One row a number.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: ε₃₂·((10 + 5·|ln(max_period)·i/(half − downscale)|)·|θ| + 4).
    Replaces: get_timestep_embedding of diffusers; timestep_embedding of SGLang's diffusion kernels.
    """

class _TopKResult(tuple[Any, ...]):
    @property
    def values(self) -> Any: ...
    @property
    def indices(self) -> Any: ...

def top_k(
    scores: _Array,
    bias: _Array | None = None,
    *,
    k: int = 1,
    groups: int = 1,
    top_groups: int = 1,
    group_top: int = 1,
    values: _Array | None = None,
    indices: _Array | None = None,
    values_dtype: _DType | None = None,
    indices_dtype: _DType | None = None,
) -> _TopKResult:
    """values, indices = the k largest of scores + bias, of the best groups

    Args:
        scores: [... n] fp32, bf16, fp16. What is compared.
        bias: [n] fp32, bf16, fp16. Added where elements are compared, not to what is given back.
        k: How many.
        groups: Groups of a row.
        top_groups: Groups that take part.
        group_top: Elements whose sum is a group's score.
        values: [... k] fp32, bf16, fp16. The scores of the chosen, the best one first. The dtype of scores.
        indices: [... k] int32, int64. Where they are in their row.
        values_dtype: dtype of values where it is allocated.
        indices_dtype: dtype of indices where it is allocated.

    Returns:
        a named tuple, or the one result: values, indices.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: exact: scores + bias is one fp32 sum, and so is a group's score.
    Replaces: torch.topk; group_limited_topk of mixtures of experts; the choice of key blocks by their
        means in sparse attention.
    """

def upsample(
    x: _Array,
    residual: _Array | None = None,
    *,
    time_scale: int = 1,
    height_scale: int = 1,
    width_scale: int = 1,
    shuffle: int = 1,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out[t, h, w, c] = x[t/time_scale, h/height_scale, w/width_scale, c'] + residual

    Args:
        x: [... time height width shuffle*channels] fp32, bf16, fp16. What is repeated.
        residual: [... time*time_scale height*height_scale width*width_scale channels] fp32, bf16, fp16.
            Added to it.
        time_scale: Repeats in time.
        height_scale: Repeats along the height.
        width_scale: Repeats along the width.
        shuffle: Channels of x for one of out.
        out: [... time*time_scale height*height_scale width*width_scale channels] fp32, bf16, fp16. The
            larger tensor. May be the memory of residual.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: half an ulp of out; with a residual plus one fp32 rounding.
    Replaces: torch.nn.functional.interpolate(mode=nearest), pixel_shuffle, repeat_interleave;
        nearest_upsample_nhwc, dup_up3d_add of SGLang's diffusion kernels; gpu_repeat_interleave_heads
        of VLA engines.
    """
