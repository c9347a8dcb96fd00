"""Hooks that replaced a module's forward: where they keep the one that they call, and whether a swap reaches it.

accelerate keeps it as `_old_forward` of the module, diffusers in the references of `_diffusers_hook`. Either is a bound
method of the class that the module had then, which a new class does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import nn

_KNOWN = ("accelerate.hooks", "diffusers.hooks.hooks")  # where the function of a hook's forward is from
Slot = tuple[dict[str, Any], str]


def _slots(module: nn.Module) -> list[Slot]:
    """Wherever a forward of this module may be kept."""
    own = vars(module)
    slots: list[Slot] = [(own, "forward"), (own, "_old_forward")]
    for reference in getattr(own.get("_diffusers_hook"), "_fn_refs", ()):
        slots += [(vars(reference), "forward"), (vars(reference), "original_forward")]
    return slots


def _bound(module: nn.Module, forward: Callable[..., Any]) -> list[Slot]:
    """The slots that hold this forward of the module."""

    def holds(value: Any) -> bool:
        return isinstance(value, MethodType) and value.__self__ is module and value.__func__ is forward

    return [(space, key) for space, key in _slots(module) if holds(space.get(key))]


def _owner(forward: Any) -> str:
    function = getattr(forward, "func", forward)  # of a functools.partial
    return str(getattr(function, "__module__", type(forward).__module__))


def why_not_reached(module: nn.Module, base: type[nn.Module]) -> str | None:
    """Why a call would not come to the class of this module; None where it does, or where `rebind` makes it."""
    outer = vars(module).get("forward")
    if outer is None:
        return None
    slots = _bound(module, base.forward)
    owner = _owner(outer)
    reached = any(space is vars(module) and key == "forward" for space, key in slots)
    if reached or (slots and owner in _KNOWN):
        return None
    return (
        f"its forward was replaced on the instance (by {owner}) and does not lead to {base.__name__}.forward: "
        "take that off first, or apply weft before it"
    )


def rebind(module: nn.Module, old: type[nn.Module], new: type[nn.Module]) -> None:
    """Hooks that call the forward of the old class call that of the new one."""
    for space, key in _bound(module, old.forward):
        space[key] = MethodType(new.forward, module)


def has_hooks(module: nn.Module) -> bool:
    """Whether anything runs around the module's forward, so that its weights may not be read without calling it.

    accelerate's and diffusers' hooks put a forward on the instance; taken off, they leave the class's own there.
    """
    if len(module._forward_hooks) > 0 or len(module._forward_pre_hooks) > 0:
        return True
    own = module.__dict__
    return "forward" in own and own["forward"] != MethodType(type(module).forward, module)
