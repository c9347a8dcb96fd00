"""weft: fused kernels for transformer inference, each with an executable specification."""

# Rendered from the contracts by `python -m weft.stubs`.

from typing import Any, Literal, TypeVar, overload

from weft import names as names

_Array = TypeVar("_Array")
_DType = Any  # the framework's, or weft's name of it ("fp8_e4m3")

__version__: str
__all__: list[str]

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
    *,
    scale: float = 0.0,
    causal: bool = False,
    out: _Array | None = None,
    lse: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = softmax(scale * q k^T, over the keys that a query sees) v

    Args:
        q: [batch q_tokens kv_heads*group head_dim] fp32, bf16, fp16. Queries.
        k: [batch kv_tokens kv_heads head_dim] fp32, bf16, fp16. Keys; each key head serves `group`
            consecutive query heads.
        v: [batch kv_tokens kv_heads head_dim] fp32, bf16, fp16. Values; a value that is not finite may
            reach rows from which only `causal` hides its key.
        kv_lengths: [batch] int32. Keys that exist, from the first; clamped to [0, kv_tokens]; `causal`
            aligns to them.
        key_mask: [batch kv_tokens] uint8. 0 hides a key from every query.
        scale: Factor of the scores; 0 means 1/sqrt(head_dim).
        causal: Hide the keys after a query, aligned bottom-right.
        out: [batch q_tokens kv_heads*group head_dim] fp32, bf16, fp16. Zeros where no key is seen.
        lse: [batch kv_heads*group q_tokens] fp32. Natural logarithm of the sum of exp(x); -inf where no key
            is seen. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, lse if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 16-bit: the weights p of a row are rounded to the input's dtype before the product with v,
        so half an ulp of p is allowed beside fp32 error: |out - ref| <= 1/2 ulp(out) + sum_j w_j
        (e^(d_j) A - 1 + h) |v_j| with w the exact weights, d_j = eps32 ((head_dim/4 + 16) scale sum_d
        |q_d k_jd| + 4 |x_j - max x| + 2 |max x| + 8) the error of a score, A = 1/sum_j w_j e^(-d_j) the
        error of the sum, and h = half an ulp of the dtype + eps32 (kv_tokens/4 + 32); fp32: the same
        without the rounding of p.
    Replaces: FlashAttention-2 (arXiv:2307.08691) and online softmax (arXiv:1805.02867); replaces
        scaled_dot_product_attention with full, causal and key-padding masks, MHA, GQA and MQA.
    """
@overload
def attention(
    q: _Array,
    k: _Array,
    v: _Array,
    kv_lengths: _Array | None = None,
    key_mask: _Array | None = None,
    *,
    scale: float = 0.0,
    causal: bool = False,
    out: _Array | None = None,
    lse: _Array | bool | None = None,
    out_dtype: _DType | None = None,
) -> _AttentionResult: ...

def dequantize(
    x: _Array,
    scale: _Array | None = None,
    token_scale: _Array | None = None,
    *,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = x · scale

    Args:
        x: [... dim] fp8_e4m3, fp8_e5m2. The codes.
        scale: [1] fp32. The tensor's scale.
        token_scale: [...] fp32. Each row's scale.
        out: [... dim] fp32, bf16, fp16. The real values.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: ε₃₂·|x·scale| (the fp32 product).
    Replaces: OCP 8-bit floating point.
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
        ids: [...] int32, int64. Row numbers.
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

class _GatedActivationResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def token_scale(self) -> Any: ...  # where it was asked for

@overload
def gated_activation(
    x: _Array | None = None,
    gate: _Array | None = None,
    up: _Array | None = None,
    scale: _Array | None = None,
    *,
    activation: Literal["silu", "gelu_tanh", "gelu_erf"] = "silu",
    out: _Array | None = None,
    token_scale: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = act(gate) · up

    Args:
        x: [... 2*hidden] fp32, bf16, fp16. Gate, then up, in one row.
        gate: [... hidden] fp32, bf16, fp16. What the activation is applied to.
        up: [... hidden] fp32, bf16, fp16. What it multiplies.
        scale: [1] fp32. The stored value times this is the real value.
        activation: The activation. One of silu, gelu_tanh, gelu_erf.
        out: [... hidden] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The product. May be the memory of gate or
            up.
        token_scale: [...] fp32. Each row's own scale, amax / max. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, token_scale if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (16 + 5·|t|·(1 − σ(t)))·ε₃₂·|act(gate)·up|, t the sigmoid's argument (gelu_erf: 16 +
        2·gate² for a negative gate), and 2⁻¹²⁵·|gate·up| where the exponential overflows; fp8 adds
        3·ε₃₂, and the row's scale its own error.
    Replaces: gated linear units (arXiv:2002.05202); gate_geglu*, geglu_fp8_static_fp16,
        silu_mul_split_fp8_fp16, silu_and_mul, gelu_and_mul.
    """
@overload
def gated_activation(
    x: _Array | None = None,
    gate: _Array | None = None,
    up: _Array | None = None,
    scale: _Array | None = None,
    *,
    activation: Literal["silu", "gelu_tanh", "gelu_erf"] = "silu",
    out: _Array | None = None,
    token_scale: _Array | bool | None = None,
    out_dtype: _DType | None = None,
) -> _GatedActivationResult: ...

def gemm(
    a: _Array,
    b: _Array,
    a_scale: _Array | None = None,
    b_scale: _Array | None = None,
    bias: _Array | None = None,
    up: _Array | None = None,
    up_scale: _Array | None = None,
    up_bias: _Array | None = None,
    residual: _Array | None = None,
    out_scale: _Array | None = None,
    *,
    activation: Literal["none", "gelu_tanh", "gelu_erf", "silu"] = "none",
    fast_accumulation: bool = False,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = (act(a_scale * b_scale * (a @ b.T) + bias) [* (a_scale * up_scale * (a @ up.T) + up_bias)] +
        residual) / out_scale

    Args:
        a: [... k] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. Activations.
        b: [n k] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. Weights; a [k, n] matrix is passed as its transposed
            view.
        a_scale: [1] fp32. What a's stored values are multiplied by.
        b_scale: [1] fp32. What b's stored values are multiplied by.
        bias: [n] fp32, bf16, fp16. Added before the activation.
        up: [n k] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. Weights of the product that the activation's value
            gates.
        up_scale: [1] fp32. What up's stored values are multiplied by.
        up_bias: [n] fp32, bf16, fp16. Added to up's product.
        residual: [... n] fp32, bf16, fp16. Added after the activation and its gating.
        out_scale: [1] fp32. The scale of an fp8 out.
        activation: After the bias. One of none, gelu_tanh, gelu_erf, silu.
        fast_accumulation: Fp8: let the tensor cores keep their short accumulator over all of k (faster,
            less exact).
        out: [... n] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The product after its epilogue. May be the memory
            of residual.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: u * sum|a*b| * scales + 2^-24 * (2|product| + |bias| + |residual|), through the
        activation's slope (at most 1.13) and 12 * 2^-24 of its argument. u = (k + 16) * 2^-24: fp32
        accumulation in any order; fp8 adds 2^-10, for the 13 fraction bits that Hopper's fp8
        accumulator keeps until it is promoted to fp32; fast_accumulation adds 2^-13 of every 32nd
        partial sum. gelu_tanh into 16 or 8 bits: tanh to 2^-11 relative, as the hardware's instruction
        gives it. up: each factor's error times the other, and 2^-24 of the product. A residual beside a
        16-bit out: the product may be rounded to out's dtype before the sum is (cuBLASLt does, on some
        shapes).
    Replaces: torch addmm, _scaled_mm and linear with their epilogues; cublasLtMatmul; gated linear
        units (arXiv:2002.05202).
    """

class _LayerNormResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def residual_out(self) -> Any: ...  # where it was asked for
    @property
    def token_scale(self) -> Any: ...  # where it was asked for

@overload
def layer_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    scale: _Array | None = None,
    *,
    weight_offset: float = 0.0,
    eps: float = 1e-05,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    residual_out: None = None,
    token_scale: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = (r - mean(r)) / sqrt(var(r) + eps) · (weight + weight_offset) + bias, r = x + residual

    Args:
        x: [... dim] fp32, bf16, fp16. The rows.
        weight: [dim] fp32, bf16, fp16. Absent: 1, without an offset.
        bias: [dim] fp32, bf16, fp16. Added last.
        residual: [... dim] fp32, bf16, fp16. Added to x before the norm.
        scale: [1] fp32. The stored value times this is the real value.
        weight_offset: Added to the weight.
        eps: Added to the variance.
        rounding: Once at the end, or as PyTorch's operators. One of fused, eager.
        out: [... dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The normalised rows. May be the memory of x or
            residual.
        residual_out: [... dim] fp32, bf16, fp16. X + residual, as the norm reads it. True asks for it. May
            be the memory of residual or x.
        token_scale: [...] fp32. Each row's own scale, amax / max. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, residual_out if asked for, token_scale if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: with S = 1/√(var + eps), W = |weight + weight_offset| and k = 52 + dim/512 (what a sum's
        additions and the division may err): the mean errs by δ = k·ε₃₂·mean|r|, a difference by d = δ +
        ε₃₂·|r − mean|, S by s = (k + 6)/2 + S²·(δ²/2 + mean|r − mean|·d) relative; y by (S·W·d + (s +
        5·ε₃₂)·|y − bias|) + ε₃₂·|y|; residual_out by ε₃₂·|x + residual|; fp8 adds 2·ε₃₂·|y|, and the
        row's scale its own error; with rounding=eager k = 64 + dim/64: each of a thread's dim/128
        updates rounds the mean.
    Replaces: arXiv:1607.06450; layer_norm, layer_norm_fp8, residual_add_layer_norm*, ln_modulate;
        SigLIP, ViT.
    """
@overload
def layer_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    scale: _Array | None = None,
    *,
    weight_offset: float = 0.0,
    eps: float = 1e-05,
    rounding: Literal["fused", "eager"] = "fused",
    out: _Array | None = None,
    residual_out: _Array | bool | None = None,
    token_scale: _Array | bool | None = None,
    out_dtype: _DType | None = None,
) -> _LayerNormResult: ...

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
    q: _Array | None = None,
    q_dtype: _DType | None = None,
) -> _QkvSplitRopeResult:
    """q = rope(Q); k_cache[first + t] = rope(K); v_cache[first + t] = V

    Args:
        qkv: [tokens (q_heads+2*kv_heads)*head_dim] fp32, bf16, fp16. The packed projection.
        k_cache: [cache_tokens kv_heads head_dim] fp32, bf16, fp16. The keys' cache. Updated in place (JAX:
            returned).
        v_cache: [cache_tokens kv_heads head_dim] fp32, bf16, fp16. The values' cache. Updated in place
            (JAX: returned).
        cache_offset_add: [1] int32, int64. Added to cache_offset, read on the device.
        positions: [tokens] int32, int64. Each token's position.
        cos: [table half] fp32, bf16, fp16. Cosines by position, instead of computed ones.
        sin: [table half] fp32, bf16, fp16. Sines by position.
        pairs: Which elements of a head form a pair. One of half, interleaved.
        base: The wavelengths' base.
        rotary_dim: Elements of a head that turn; 0: all.
        cache_offset: The first token's cache row.
        q: [tokens q_heads head_dim] fp32, bf16, fp16. The rotated queries.
        q_dtype: dtype of q where it is allocated.

    Returns:
        a named tuple, or the one result: q, k_cache, v_cache.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 8·ε₃₂·(|a·cos| + |b·sin|) for Q and K; V exact.
    Replaces: RoFormer (arXiv:2104.09864); qkv_split, qkv_split_rope, qkv_split_rope_kvcache_fp16.
    """

class _QuantizeResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def tensor_scale(self) -> Any: ...  # where it was asked for
    @property
    def token_scale(self) -> Any: ...  # where it was asked for

@overload
def quantize(
    x: _Array,
    scale: _Array | None = None,
    *,
    out: _Array | None = None,
    tensor_scale: None = None,
    token_scale: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = saturate(x / scale)

    Args:
        x: [... dim] fp32, bf16, fp16. What to quantise.
        scale: [1] fp32. The tensor's scale, given.
        out: [... dim] fp8_e4m3, fp8_e5m2. The codes; times the scale they are x again.
        tensor_scale: [1] fp32. The tensor's scale, found: amax / max. True asks for it.
        token_scale: [...] fp32. Each row's scale, found: amax / max. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, tensor_scale if asked for, token_scale if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: written scales: ε₃₂·scale; codes: the rounding of x/scale ± 3·ε₃₂·|x/scale|.
    Replaces: OCP 8-bit floating point; quantize_fp8*, cast_fp16_fp8, scaled_fp8_quant,
        dynamic_per_token_scaled_fp8_quant.
    """
@overload
def quantize(
    x: _Array,
    scale: _Array | None = None,
    *,
    out: _Array | None = None,
    tensor_scale: _Array | bool | None = None,
    token_scale: _Array | bool | None = None,
    out_dtype: _DType | None = None,
) -> _QuantizeResult: ...

def residual_add(
    x: _Array,
    residual: _Array,
    bias: _Array | None = None,
    *,
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = x + bias + residual

    Args:
        x: [... dim] fp32, bf16, fp16. The sub-layer's result.
        residual: [... dim] fp32, bf16, fp16. The stream it is added to.
        bias: [dim] fp32, bf16, fp16. Added to every row.
        out: [... dim] fp32, bf16, fp16. The sum. May be the memory of x or residual.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: half an ulp of out; with a bias plus 2 fp32 roundings: k = 2 times (|x + bias| + |sum|).
    Replaces: bias_residual, residual_add of VLA engines; torch.add.
    """

class _RmsNormResult(tuple[Any, ...]):
    @property
    def out(self) -> Any: ...
    @property
    def residual_out(self) -> Any: ...  # where it was asked for
    @property
    def token_scale(self) -> Any: ...  # where it was asked for

@overload
def rms_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    scale: _Array | None = None,
    *,
    weight_offset: float = 0.0,
    eps: float = 1e-06,
    rounding: Literal["fused", "eager", "eager_cast"] = "fused",
    out: _Array | None = None,
    residual_out: None = None,
    token_scale: None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """out = r / sqrt(mean(r²) + eps) · (weight + weight_offset) + bias, r = x + residual

    Args:
        x: [... dim] fp32, bf16, fp16. The rows.
        weight: [dim] fp32, bf16, fp16. Absent: 1, without an offset.
        bias: [dim] fp32, bf16, fp16. Added last.
        residual: [... dim] fp32, bf16, fp16. Added to x before the norm.
        scale: [1] fp32. The stored value times this is the real value.
        weight_offset: Added to the weight.
        eps: Added to the mean square.
        rounding: Once at the end, or as PyTorch's chain. One of fused, eager, eager_cast.
        out: [... dim] fp32, bf16, fp16, fp8_e4m3, fp8_e5m2. The normalised rows. May be the memory of x or
            residual.
        residual_out: [... dim] fp32, bf16, fp16. X + residual, as the norm reads it. True asks for it. May
            be the memory of residual or x.
        token_scale: [...] fp32. Each row's own scale, amax / max. True asks for it.
        out_dtype: dtype of out where it is allocated.

    Returns:
        a named tuple, or the one result: out, residual_out if asked for, token_scale if asked for.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: (k·|y − bias| + |y|)·ε₃₂, k = 32 + dim/1024: half the error of the sum of squares (33 +
        dim/512 additions in a thread, 14 between threads) and of the mean, and 5 roundings after it;
        residual_out by ε₃₂·|x + residual|; fp8 adds 2·ε₃₂·|y|, and the row's scale its own error; with
        rounding=eager k = 48 (a reciprocal root of 2 ulp), and eager_cast rounds both ends of n's
        interval on the way.
    Replaces: arXiv:1910.07467; rms_norm, rms_norm_fp8, residual_add_rms_norm*, fused_add_rms_norm,
        rms_norm_dynamic_per_token_quant; Gemma, Llama and T5 norms.
    """
@overload
def rms_norm(
    x: _Array,
    weight: _Array | None = None,
    bias: _Array | None = None,
    residual: _Array | None = None,
    scale: _Array | None = None,
    *,
    weight_offset: float = 0.0,
    eps: float = 1e-06,
    rounding: Literal["fused", "eager", "eager_cast"] = "fused",
    out: _Array | None = None,
    residual_out: _Array | bool | None = None,
    token_scale: _Array | bool | None = None,
    out_dtype: _DType | None = None,
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
    out: _Array | None = None,
    out_dtype: _DType | None = None,
) -> _Array:
    """(a, b) of pair i → (a·cos θ − b·sin θ, b·cos θ + a·sin θ), θ = position · base^(−2i/rotary_dim)

    Args:
        x: [... tokens heads head_dim] fp32, bf16, fp16. Queries or keys.
        positions: [... tokens] int32, int64. Each token's position.
        cos: [table half] fp32, bf16, fp16. Cosines by position, instead of computed ones.
        sin: [table half] fp32, bf16, fp16. Sines by position.
        pairs: Which elements of a head form a pair. One of half, interleaved.
        base: The wavelengths' base.
        rotary_dim: Elements of a head that turn; 0: all.
        start: The first token's position.
        out: [... tokens heads head_dim] fp32, bf16, fp16. The rotated heads. May be the memory of x.
        out_dtype: dtype of out where it is allocated.

    Returns:
        the result: out.

    Raises:
        ValueError, TypeError: what the contract forbids, with the field at fault.

    Numerics: 8·ε₃₂·(|a·cos| + |b·sin|).
    Replaces: RoFormer (arXiv:2104.09864); rope_apply, rope_rotate_half_fp16, apply_rotary_pos_emb.
    """

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
