"""weft.swap: classes that change and change back, hooks before and after, what is counted and what is refused."""

from __future__ import annotations

import pytest
import torch
import weft
from torch import nn
from torch.nn.utils import parametrize
from weft import swap

hooks = pytest.importorskip("accelerate").hooks

X = torch.linspace(-2, 2, 24).view(3, 8)


class Scale(nn.Module):
    """Somebody's norm, with a name of its own for eps."""

    def __init__(self, width=8, eps=1e-5, offset=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 1.5, width))
        self.variance_epsilon, self.offset = eps, offset

    def forward(self, x):
        n = x.float()
        n = n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (n * (self.weight.float() + self.offset)).to(x.dtype)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(Scale(), nn.Linear(8, 8)) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def normed(self, x):
    return weft.rms_norm(x, self.weight, eps=self.weft_eps, weight_offset=self.weft_offset)


def passes(self, x):
    return "three axes" if x.dim() == 3 else None


def prepare(module):
    found = swap.read_norm(module)
    if isinstance(found, str):
        return found
    cls = swap.subclass(type(module), normed, passes)
    return swap.Swap(cls, {"weft_eps": found.eps, "weft_offset": found.weight_offset})


RECIPES = [swap.Recipe("rms_norm", Scale, prepare)]


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def test_plan_changes_nothing(net):
    planned = swap.plan(net, RECIPES)
    assert [(row.path, row.op, row.replaced) for row in planned.rows] == [
        (f"layers.{place}.0", "rms_norm", True) for place in range(3)
    ]
    assert "layers.*.* (3)  rms_norm  replaced" in str(planned)
    assert type(net.layers[0][0]) is Scale


def test_apply_and_undo(net):
    first = net.layers[0][0]
    first.weft_eps = "theirs"  # an attribute of the same name
    before, attributes, expected = net.state_dict(), dict(vars(first)), net(X)
    report = swap.apply(net, RECIPES)
    assert type(first) is not Scale
    assert isinstance(first, Scale)
    assert (type(first).__name__, type(first).__qualname__) == ("Scale", "Scale")
    assert type(first) is type(net.layers[1][0])
    assert report.silent() == [f"layers.{place}.0" for place in range(3)]
    assert torch.allclose(net(X), expected, atol=1e-6)
    swap.apply(net, RECIPES)
    net(X)
    assert report.calls() == {f"layers.{place}.0": 2 for place in range(3)}
    assert report.silent() == []
    assert list(net.state_dict()) == list(before)
    assert swap.undo(net) == 3
    assert type(first) is Scale
    assert vars(first) == attributes
    assert torch.equal(net(X), expected)
    assert "undone" in str(report)


def test_calls_that_are_handed_on(net):
    report = swap.apply(net, RECIPES)
    net(X[None])
    assert report.passed()["layers.0.0"] == {"three axes": 1}
    with torch.enable_grad():
        net(X).sum().backward()
    assert net.layers[0][0].weight.grad is not None
    assert any("gradient" in reason for reason in report.passed()["layers.0.0"])
    assert report.calls()["layers.0.0"] == 0
    assert "three axes; a gradient is wanted" in str(report)


@pytest.mark.parametrize("order", ["hooks first", "weft first"])
def test_accelerates_hooks(net, order):
    expected = net(X)
    seen = []

    class Watch(hooks.ModelHook):
        def pre_forward(self, module, *args, **kwargs):
            seen.append(type(module).__name__)
            return args, kwargs

    def hook():
        for layer in net.layers:
            hooks.add_hook_to_module(layer[0], Watch())

    if order == "hooks first":
        hook()
        report = swap.apply(net, RECIPES)
    else:
        report = swap.apply(net, RECIPES)
        hook()
    assert torch.allclose(net(X), expected, atol=1e-6)
    assert report.calls() == {f"layers.{place}.0": 1 for place in range(3)}
    assert seen == ["Scale"] * 3
    if order == "weft first":  # what accelerate leaves on the instance is undone too
        hooks.remove_hook_from_submodules(net)
    swap.undo(net)
    assert torch.equal(net(X), expected)
    hooks.remove_hook_from_submodules(net)
    assert torch.equal(net(X), expected)
    assert (
        "forward" not in vars(net.layers[0][0]) or vars(net.layers[0][0])["forward"].__func__ is Scale.forward
    )
    # After accelerate has been and gone, its bound method is rebound as well.
    report = swap.apply(net, RECIPES)
    net(X)
    assert report.silent() == []


@pytest.mark.parametrize("order", ["hooks first", "weft first"])
def test_diffusers_hooks(net, order):
    registry = pytest.importorskip("diffusers.hooks.hooks")
    expected = net(X)
    seen = []

    class Around(registry.ModelHook):
        def new_forward(self, module, *args, **kwargs):
            seen.append(type(module).__name__)
            return self.fn_ref.original_forward(*args, **kwargs)

    def hook():
        for layer in net.layers:
            found = registry.HookRegistry.check_if_exists_or_initialize(layer[0])
            found.register_hook(registry.ModelHook(), "inner")
            found.register_hook(Around(), "outer")

    if order == "hooks first":
        hook()
        report = swap.apply(net, RECIPES)
    else:
        report = swap.apply(net, RECIPES)
        hook()
    assert torch.allclose(net(X), expected, atol=1e-6)
    assert report.calls() == {f"layers.{place}.0": 1 for place in range(3)}
    assert seen == ["Scale"] * 3
    swap.undo(net)
    assert torch.equal(net(X), expected)
    assert len(seen) == 6


def test_a_forward_on_the_instance_is_refused(net):
    net.layers[0][0].forward = lambda x: x
    with pytest.warns(UserWarning, match="apply weft before it"):
        report = swap.apply(net, RECIPES)
    row = report.declined[0]
    assert (row.path, row.replaced) == ("layers.0.0", False)
    assert "does not lead to Scale.forward" in row.reason
    assert type(net.layers[0][0]) is Scale
    net(X)
    assert report.silent() == []


def test_a_hook_over_a_foreign_forward_is_refused(net):
    net.layers[0][0].forward = lambda x: x
    hooks.add_hook_to_module(net.layers[0][0], hooks.ModelHook())
    with pytest.warns(UserWarning, match="take that off first"):
        assert len(swap.apply(net, RECIPES).replaced) == 2


def test_a_class_that_changed_since(net):
    """Something that makes a subclass of the swapped class comes off first."""
    swap.apply(net, RECIPES)
    parametrize.register_parametrization(net.layers[1][0], "weight", nn.Identity())
    with pytest.raises(RuntimeError, match=r"layers\.1\.0: its class became"):
        swap.undo(net)
    assert swap.swapped(net.layers[0][0]) is not None
    parametrize.remove_parametrizations(net.layers[1][0], "weight")
    assert swap.undo(net) == 3


def test_recipes_name_classes_exactly(net):
    class Other(Scale):
        pass

    qualified = f"{Scale.__module__}.Scale"
    assert swap.Recipe("", qualified, prepare).matches(Scale)
    assert not swap.Recipe("", qualified, prepare).matches(Other)
    assert not swap.Recipe("", Scale, prepare).matches(Other)
    with pytest.raises(ValueError, match="bare name"):
        swap.Recipe("", "Scale", prepare)
    with pytest.raises(TypeError, match="plain values only"):
        swap.Swap(Scale, {"table": X})
    with pytest.raises(TypeError, match=r"not by subclass\(\)"):
        swap.plan(net, [swap.Recipe("", Scale, lambda module: swap.Swap(Other))])


def test_sources(net):
    """A block's recipe is for the sources that it names; the next recipe of the class gets its turn."""
    known = swap.source_hash(Scale)
    assert swap.source_hash(Scale, "normed") not in (None, known)
    assert swap.source_hash(Scale, "no_such_function") is None
    block = swap.Recipe("block", Scale, prepare, frozenset({known}))
    assert {row.op for row in swap.plan(net, [block, *RECIPES]).rows} == {"block"}
    stale = swap.Recipe("block", Scale, prepare, frozenset({"0" * 64}))
    rows = swap.plan(net, [stale, *RECIPES]).rows
    assert [(row.op, row.replaced) for row in rows[:2]] == [("block", False), ("rms_norm", True)]
    assert known in rows[0].reason
    made = type("Made", (Scale,), {"__module__": "nowhere"})
    assert "cannot be read" in swap.Recipe("", made, prepare, frozenset({known})).unknown_source(made)


def test_compiled_blocks_share_their_code(net):
    """One compilation for all blocks, and the counts say that it happened; none of the counting is in a guard."""
    report = swap.apply(net, RECIPES)
    expected = net(X)
    for layer in net.layers:
        layer.compile(fullgraph=True, backend="aot_eager")
    torch.compiler.reset()
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert torch.allclose(net(X), expected, atol=1e-6)
        net(X)
    assert set(report.traces().values()) == {1}
    assert report.calls() == {f"layers.{place}.0": 1 for place in range(3)}
    assert "traced" in str(report)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (Scale(), ("rms", 1e-5, 0.0, True, "eager")),
        (Scale(offset=1.0, eps=1e-3), ("rms", 1e-3, 1.0, True, "eager")),
        (nn.RMSNorm(16), ("rms", torch.finfo(torch.float32).eps, 0.0, True, "eager")),
        (nn.RMSNorm(16, eps=1e-6, elementwise_affine=False), ("rms", 1e-6, 0.0, False, "eager")),
        (nn.LayerNorm(16, eps=1e-6), ("layer", 1e-6, 0.0, True, "fused")),
        (nn.LayerNorm(16, elementwise_affine=False), ("layer", 1e-5, 0.0, False, "fused")),
    ],
)
def test_norms_are_read_by_what_they_compute(module, expected):
    found = swap.read_norm(module)
    assert not isinstance(found, str), found
    assert (found.kind, found.eps, found.weight_offset, found.affine, found.rounding) == expected
    on_no_device = module.to("meta")
    assert swap.read_norm(on_no_device) == found


class Decoy(Scale):
    """What its names promise is not what it does."""

    def forward(self, x):
        return super().forward(x) * 1.01


class Late(Scale):
    """Its eps is outside of the root."""

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.variance_epsilon) * self.weight


class Other(Scale):
    """Its eps is another than it says, by less than any row shows that is not small."""

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 0.1 * self.variance_epsilon) * self.weight


@pytest.mark.parametrize(
    "module",
    [
        Decoy(),
        Late(eps=1e-3),
        Other(eps=1e-5),
        Other(eps=1e-9),
        nn.SiLU(),
        nn.Linear(8, 8),
        nn.LayerNorm((4, 4)),
    ],
)
def test_what_is_no_norm_is_declined(module):
    assert isinstance(swap.read_norm(module), str)


def test_linears_are_eaten_only_as_they_are():
    linear = nn.Linear(4, 4)
    assert swap.why_not_eaten(linear) is None
    assert "it is a NonDynamicallyQuantizableLinear" in swap.why_not_eaten(
        nn.modules.linear.NonDynamicallyQuantizableLinear(4, 4)
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert "autocast" in swap.why_not_eaten(linear)
    handle = linear.register_forward_pre_hook(lambda module, args: None)
    assert "hooks" in swap.why_not_eaten(linear)
    handle.remove()
    hooks.add_hook_to_module(linear, hooks.ModelHook())
    assert "hooks" in swap.why_not_eaten(linear)
    hooks.remove_hook_from_module(linear)
    assert "forward" in vars(linear)
    assert swap.why_not_eaten(linear) is None
    linear.forward = lambda x: x
    assert "hooks" in swap.why_not_eaten(linear)
    quantised = nn.Linear(4, 4)
    quantised.weight = type("Packed", (nn.Parameter,), {})(torch.zeros(4, 4))
    assert "Packed" in swap.why_not_eaten(quantised)


def test_reasons_are_the_dispatchers():
    assert swap.tried(weft.rms_norm, X, torch.ones(8)) is None
    assert "rms_norm.weight" in swap.tried(weft.rms_norm, X, torch.ones(9))


def test_undo_calls_what_adapters_left(net):
    calls = []
    swap.apply(net, RECIPES)
    swap.on_undo(net, lambda: calls.append("first"))
    swap.on_undo(net, lambda: calls.append("second"))
    swap.undo(net)
    swap.undo(net)
    assert calls == ["second", "first"]
