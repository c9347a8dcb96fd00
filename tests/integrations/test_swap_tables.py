"""weft.swap, word by word: its tables, its warnings and refusals, and what a module is after each of its steps."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from weft import swap
from weft.swap import _hooks, _recipe
from weft.swap._plan import table

pytest.importorskip("accelerate")

from tests.integrations.test_swap import RECIPES, Net, Scale, X
from tests.integrations.test_swap import passes as base_passes

GRADIENT = "a gradient is wanted, and weft has none: call under torch.no_grad() or torch.inference_mode()"


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def test_a_table():
    lines = [
        ("a.0.b.1", "x", "y"),
        ("a.10.b.2", "x", "y"),
        ("a.0.b", "x", ""),
        ("3", "longer", "y"),
        ("4", "longer", "y"),
        ("a1.b2", "x", "y"),
        ("", "x", "y"),
    ]
    assert table(("module", "op", "r"), lines).split("\n") == [
        "module       op      r",
        "-----------  ------  -",
        "a.*.b.* (2)  x       y",
        "a.*.b        x",
        "* (2)        longer  y",
        "a1.b2        x       y",
        "             x       y",
    ]


def test_the_tables_of_a_model_that_is_swapped_called_and_undone(net):
    net.layers[1][0].forward = lambda x: x
    stale = swap.Recipe("block", nn.Sequential, lambda module: "no such block")
    planned = swap.plan(net, [stale, *RECIPES])
    reason = (
        f"its forward was replaced on the instance (by {__name__}) and does not lead to Scale.forward: take that off "
        "first, or apply weft before it"
    )
    assert [(row.path, row.op, row.replaced, row.reason, row.hooks) for row in planned.rows] == [
        ("layers.0", "block", False, "no such block", False),
        ("layers.0.0", "rms_norm", True, "", False),
        ("layers.1", "block", False, "no such block", False),
        ("layers.1.0", "rms_norm", False, reason, True),
        ("layers.2", "block", False, "no such block", False),
        ("layers.2.0", "rms_norm", True, "", False),
    ]
    assert [row.path for row in planned.replaced] == ["layers.0.0", "layers.2.0"]
    assert [row.path for row in planned.declined] == ["layers.0", "layers.1", "layers.1.0", "layers.2"]
    with pytest.warns(UserWarning) as warned:
        report = swap.apply(net, [stale, *RECIPES])
    assert [str(at.message) for at in warned] == [f"weft.swap leaves layers.1.0 alone: {reason}"]
    assert warned[0].filename == __file__, "of the caller's line"
    with torch.no_grad():
        net(X)
        net.layers[2][0](X[None])
    net.layers[0][0](X)
    assert str(report) == table(
        ("module", "op", "", "calls", "traced", "passed on", "reason"),
        [
            ("layers.0", "block", "declined", "", "", "", "no such block"),
            ("layers.0.0", "rms_norm", "replaced", "1", "", "1", GRADIENT),
            ("layers.1", "block", "declined", "", "", "", "no such block"),
            ("layers.1.0", "rms_norm", "declined", "", "", "", reason),
            ("layers.2", "block", "declined", "", "", "", "no such block"),
            ("layers.2.0", "rms_norm", "replaced", "1", "", "1", "three axes"),
        ],
    )
    assert report.passed() == {"layers.0.0": {GRADIENT: 1}, "layers.2.0": {"three axes": 1}}
    assert str(swap.report(net)).count("replaced") == 2
    assert swap.undo(net) == 2
    assert report.calls() == {} and report.traces() == {} and report.passed() == {} and report.silent() == []
    lines = [line.split() for line in str(report).split("\n")]
    assert ["layers.*.*", "(2)", "rms_norm", "undone"] in lines


def test_a_whole_model_is_called_so():
    norm = Scale()
    norm.forward = lambda x: x
    with pytest.warns(UserWarning, match="^weft.swap leaves the model alone: its forward was replaced"):
        swap.apply(norm, RECIPES)


def covering(self, x):
    return x + 1


def test_what_a_swap_covers_is_not_silent():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Scale(), Scale()

        def forward(self, x):
            return x + 2

    def prepare(module):
        return swap.Swap(swap.subclass(type(module), covering), covers=("first",))

    pair = Pair()
    net = nn.Sequential(pair)
    report = swap.apply(net, [swap.Recipe("pair", Pair, prepare), *RECIPES])
    assert report.silent() == ["0", "0.first", "0.second"]
    with torch.no_grad():
        assert torch.equal(net(X), X + 1)
    assert report.silent() == ["0.second"]
    lines = {line.split("  ")[0].strip(): line for line in str(report).split("\n")}
    assert lines["*.first"].endswith("  the module around it uses its weights")
    assert "uses its weights" not in lines["*.second"] + lines["*"]
    with torch.no_grad():
        pair.first(X)
    assert "uses its weights" not in str(report), "it is called by itself, too"
    alone = swap.apply(Pair(), [swap.Recipe("pair", Pair, prepare), *RECIPES])
    with torch.no_grad():
        alone.model(X)
    assert alone.silent() == ["second"], "a model may be swapped itself"


def counting(self, x):
    swap.handed_on(self, "a part of it")
    return x


def refused(self, x):
    return "never"


def test_what_is_counted_of_a_forward(net):
    def prepare(module):
        return swap.Swap(swap.subclass(type(module), counting))

    norm = net.layers[0][0]
    report = swap.apply(norm, [swap.Recipe("norm", Scale, prepare)])
    with torch.no_grad():
        norm(X), norm(x=X)
    assert report.calls() == {"": 2} and report.passed() == {"": {"a part of it": 2}}
    assert norm(X).requires_grad, "by its own class, where a gradient is wanted"
    assert report.passed() == {"": {"a part of it": 2, GRADIENT: 1}}
    with torch.no_grad():
        other = swap.subclass(Scale, counting, refused, lambda self, x: x * 3)
        norm.__class__ = other
        assert torch.equal(norm(X), X * 3)
    norm.requires_grad_(False)
    assert not _recipe.wants_gradient(norm, [X, None, "text"])
    assert _recipe.wants_gradient(norm, ["text", X.clone().requires_grad_()])
    with torch.no_grad():
        assert not _recipe.wants_gradient(norm, [X.clone().requires_grad_()])


def test_a_subclass_looks_like_its_base():
    made = swap.subclass(Scale, counting)
    assert made is swap.subclass(Scale, counting) and made is not swap.subclass(Scale, counting, refused)
    assert made is not swap.subclass(Scale, counting, None, refused)
    assert issubclass(made, Scale) and made.__module__ == __name__ and made.__doc__ == Scale.__doc__
    assert vars(made.forward)["__wrapped__"] is Scale.forward and made.forward.__name__ == "forward"
    label = _recipe.label_of(made)
    assert label.rpartition(" ")[0] == "Scale" and made.forward.__code__.co_name == f"forward of {label}"
    labels = {_recipe.label_of(swap.subclass(Scale, counting, passes)) for passes in (None, refused)}
    assert len(labels) == 2


def test_attributes_come_and_go(net):
    first, second = net.layers[0][0], net.layers[1][0]
    first.weft_eps = "theirs"
    swap.apply(net, RECIPES)
    assert (first.weft_eps, second.weft_eps, second.weft_offset) == (1e-5, 1e-5, 0.0)
    del second.weft_offset  # somebody was quicker
    calls: list[str] = []
    swap.on_undo(net.layers[0], lambda: calls.append("inner"))
    swap.on_undo(net, lambda: calls.append("outer"))
    assert swap.undo(net) == 3 and calls == ["outer", "inner"]
    assert first.weft_eps == "theirs" and "weft_eps" not in vars(second)
    assert swap.undo(net) == 0 and len(calls) == 2


def test_what_is_said_of_recipes_that_do_not_fit(net):
    class Other(Scale):
        pass

    def swapping(cls):
        return [swap.Recipe("norm", Scale, lambda module: swap.Swap(cls))]

    for cls in (Other, nn.Linear):
        with pytest.raises(TypeError) as raised:
            swap.plan(net, swapping(cls))
        assert str(raised.value) == f"the recipe norm swaps Scale to {cls}: not by subclass()"
    with pytest.raises(TypeError) as raised:
        swap.Swap(Scale, {"plain": 1, "table": X})
    assert str(raised.value) == "attribute 'table' of a swap is a Tensor: plain values only"
    with pytest.raises(TypeError, match="'inner' of a swap is a Linear"):
        swap.Swap(Scale, {"inner": nn.Linear(1, 1)})
    with pytest.raises(ValueError) as bare:
        swap.Recipe("norm", (Scale, "Scale"), lambda module: "")
    assert str(bare.value) == "'Scale' is a bare name; a recipe needs module and name"
    several = swap.Recipe("norm", ("nowhere.Scale", nn.Linear), lambda module: "")
    assert several.matches(nn.Linear) and not several.matches(Scale)
    assert several.unknown_source(Scale) is None
    unknown = swap.Recipe("norm", Scale, lambda module: "", frozenset({"0"}))
    assert unknown.unknown_source(Scale) == (
        f"unknown source (sha256 {swap.source_hash(Scale)}): the recipe was written for another version"
    )
    nowhere = type("Made", (Scale,), {"__module__": "nowhere"})
    assert unknown.unknown_source(nowhere) == (
        "its source cannot be read, so that nobody can tell whether the recipe fits it"
    )


def test_a_class_of_the_same_name_is_not_by_subclass(net):
    twin = type("Scale", (nn.Module,), {})
    with pytest.raises(TypeError, match=r"not by subclass\(\)$"):
        swap.plan(net, [swap.Recipe("norm", Scale, lambda module: swap.Swap(twin))])


def test_a_hash_is_that_of_the_source():
    text = inspect.getsource(Scale).rstrip()
    assert swap.source_hash(Scale) == hashlib.sha256(text.encode()).hexdigest()
    both = "\0".join((text, inspect.getsource(base_passes).rstrip()))
    assert swap.source_hash(Scale, "passes") == hashlib.sha256(both.encode()).hexdigest()
    assert swap.source_hash(Scale, "nobody") is None


def test_rows_are_equal_and_shown_without_their_swap(net):
    first, second = swap.plan(net, RECIPES).rows[:1], swap.plan(net, RECIPES).rows[:1]
    assert first == second and first[0].swap is not None
    assert dataclasses.replace(first[0], swap=None) == first[0]
    assert repr(first[0]) == ("Row(path='layers.0.0', op='rms_norm', replaced=True, reason='', hooks=False)")


def test_what_a_graph_hands_on_is_counted_once(net):
    report = swap.apply(net, RECIPES)
    torch.compiler.reset()
    for layer in net.layers:
        layer.compile(fullgraph=True, backend="eager")
    with torch.no_grad():
        for _ in range(2):
            net(X[None])
    assert report.passed() == {f"layers.{place}.0": {"three axes": 1} for place in range(3)}
    assert set(report.calls().values()) == {0} and set(report.traces().values()) == {0}


def test_a_class_that_changed_is_told_in_the_table(net):
    report = swap.apply(net, RECIPES)
    later = type("Later", (type(net.layers[0][0]),), {})
    net.layers[0][0].__class__ = later
    reason = "its class became Later after weft's swap"
    (row, *_) = swap.report(net).rows
    assert (row.path, row.op, row.replaced, row.reason, row.hooks) == (
        "layers.0.0",
        "rms_norm",
        False,
        reason,
        True,
    )
    with pytest.raises(RuntimeError) as raised:
        swap.undo(net)
    assert str(raised.value) == f"layers.0.0: {reason}; undo that first"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        swap.apply(net, RECIPES)
    assert [str(at.message) for at in warned] == [f"weft.swap leaves layers.0.0 alone: {reason}"]
    assert report.calls()["layers.1.0"] == 0


class Bound:
    """What calls a forward of somebody's."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)


def test_forwards_on_the_instance():
    norm = Scale()
    assert _hooks.why_not_reached(norm, Scale) is None
    norm.forward = norm.forward  # its own, bound
    assert _hooks.why_not_reached(norm, Scale) is None and not _hooks.has_hooks(norm)
    norm.forward = Scale().forward  # another module's
    assert _hooks.has_hooks(norm) and "(by" in str(_hooks.why_not_reached(norm, Scale))
    norm.forward = Bound(Scale.forward)
    assert f"(by {__name__})" in str(_hooks.why_not_reached(norm, Scale))
    norm._old_forward = type(norm).forward.__get__(norm)
    assert f"(by {__name__})" in str(_hooks.why_not_reached(norm, Scale)), "nobody says that it calls it"
    del norm.forward, norm._old_forward
    handle = norm.register_forward_hook(lambda *_: None)
    assert _hooks.has_hooks(norm)
    handle.remove()
    assert not _hooks.has_hooks(norm)
    other = swap.subclass(Scale, counting)
    norm.forward = norm._old_forward = norm.forward
    _hooks.rebind(norm, Scale, other)
    for kept in (vars(norm)["forward"], vars(norm)["_old_forward"]):
        assert kept.__func__ is other.forward and kept.__self__ is norm


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (torch.float32, None),
        (torch.bfloat16, None),
        (torch.float16, None),
        (torch.float64, "dtype torch.float64"),
    ],
)
def test_dtypes_of_attention(dtype, said):
    assert swap.why_no_attention(torch.zeros(1, dtype=dtype)) == said


def test_what_is_said_of_weights(net):
    linear = nn.Linear(4, 4)
    assert swap.why_not_read(linear) is None and swap.why_not_eaten(linear) is None
    assert swap.why_not_eaten(nn.SiLU()) == "it is a SiLU, not nn.Linear"
    with torch.autocast("cpu", torch.bfloat16):
        assert swap.why_not_eaten(linear) == "autocast chooses the dtype of its product"
    linear.weight = type("Packed", (nn.Parameter,), {})(torch.zeros(4, 4))
    assert swap.why_not_read(linear) == "its weight is a Packed" == swap.why_not_eaten(linear)
    linear.register_forward_pre_hook(lambda module, args: None)
    assert swap.why_not_read(linear) == "hooks run around it" == swap.why_not_eaten(linear)
    assert swap.why_not_read(nn.Linear(4, 4, bias=False)) is None


def raising(error):
    def call(*_, **__):
        raise error

    return call


def test_reasons_of_calls_that_were_tried():
    for error in (NotImplementedError("a"), TypeError("a"), ValueError("a")):
        assert swap.tried(raising(error)) == "a"
    with pytest.raises(KeyError):
        swap.tried(raising(KeyError("a")))
    seen = []
    assert swap.tried(lambda *given, **named: seen.append((given, named)), 1, b=2) is None
    assert seen == [((1,), {"b": 2})]


def test_every_reference_of_a_hook_is_bound_anew():
    norm, other = Scale(), swap.subclass(Scale, counting)
    references = [SimpleNamespace(forward=norm.forward, original_forward=norm.forward) for _ in range(2)]
    foreign = SimpleNamespace(forward=Scale().forward, original_forward=None)
    norm._diffusers_hook = SimpleNamespace(_fn_refs=[*references, foreign])
    kept = foreign.forward
    _hooks.rebind(norm, Scale, other)
    for reference in references:
        assert reference.forward.__func__ is other.forward is reference.original_forward.__func__
    assert foreign.forward is kept and foreign.original_forward is None
