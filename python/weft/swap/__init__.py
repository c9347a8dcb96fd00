"""Weft in the modules of somebody else's model: what is replaced, what is declined and why, how often it ran.

A module is replaced by changing its class to a subclass of its own class (`module.__class__ = Sub`), not by a forward
on the instance: hooks, adapters and compilation look methods up in the class, so a forward on the instance is lost to
them without a word. Parameters, names, `state_dict`, `isinstance`, `__name__` and `__qualname__` stay as they are.

    report = swap.apply(model, recipes)   # a Report: rows of (path, op, replaced or declined, reason)
    print(report)                         # the table; report.calls(), report.passed() and report.silent() count
    swap.undo(model)                      # classes and attributes as they were

A `Recipe` says which class it is for, by the class itself or by its qualified name, and prepares one module: a `Swap`
to a subclass made by `subclass`, or the reason for declining. A recipe that replaces a whole block knows the sha256 of
the source that it was written for (`source_hash`); a block of other source is left alone, and leaf modules apply.

A forward of a subclass that cannot take a call hands it to the module's own class, and the reason is counted: `passes`
says so for each call. Calls that want gradients are handed on always: weft has none.

Under torch.compile, Python does not run when the graph does. What is counted there is that a swap was traced into a
graph (`report.traces()`), for all modules that share the class, because they share the compiled code.
"""

from weft.swap._modules import Norm, read_norm, tried, why_no_attention, why_not_eaten, why_not_read
from weft.swap._plan import Plan, Report, Row, apply, on_undo, plan, report, undo
from weft.swap._recipe import Recipe, Swap, handed_on, source_hash, subclass, swapped

__all__ = [
    "Norm",
    "Plan",
    "Recipe",
    "Report",
    "Row",
    "Swap",
    "apply",
    "handed_on",
    "on_undo",
    "plan",
    "read_norm",
    "report",
    "source_hash",
    "subclass",
    "swapped",
    "tried",
    "undo",
    "why_no_attention",
    "why_not_eaten",
    "why_not_read",
]
