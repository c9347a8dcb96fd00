"""Where a source gets a probe, and where mutants: edits that only add text, so that all of them stand together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from instrument.tokens import OPEN, Source

INFIX = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "/": "*",
         "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}  # fmt: skip
COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}
HASTENS = {
    "dependents_launch",
    "tma_prefetch",
}  # a statement without which results are as they were, and later
# What a generator of cases asks: how often something is drawn is a choice, whether it ever is, is none.
ODDS = {"chance", "below"}
# Functions whose first two arguments may change places.
COMMUTES = {"fminf", "fmaxf", "min", "max", "__fadd_rn", "__fmul_rn", "fmaf", "__fmaf_rn"}
SYNCHRONISES = ("sync", "barrier", "fence", "wait", "arrive", "commit", "release", "hold")
_WORDS = """
return const constexpr auto using static if for while do else switch case default break continue template typename
struct class enum union namespace static_assert throw delete new asm goto extern inline friend public private protected
operator requires void bool int float double unsigned signed char long short try catch this typedef mutable explicit
virtual concept co_return __device__ __global__ __host__
"""
KEYWORDS = set(re.findall(r"\w+", _WORDS))
NAME = "weft::sites::"


@dataclass
class Site:
    """A place in a source. `rules` names its mutants: those of a condition are two."""

    start: int  # in the source, as are the edits' places
    line: int
    kind: str  # here, condition, loop, or the rule of a mutant
    text: str  # the line, for people
    rules: tuple[str, ...]
    edits: list[tuple[int, str]] = field(
        default_factory=list
    )  # place, inserted text; "{id}" is the site's number
    end: int = 0  # text from start to here is left out where `edits` replace it


class Finder:
    """All sites of one source."""

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.lines = text.split("\n")
        self.fixed = self._constants()
        self.bodies = self._bodies()

    def sites(self) -> list[Site]:
        found = [site for rule in (self._blocks, self._conditions, self._operands, self._arms, self._infix,
                                   self._literals, self._statements, self._bounds, self._casts, self._arguments)
                 for site in rule()]  # fmt: skip
        return sorted(found, key=lambda site: (site.start, site.kind))

    def _site(self, i: int, kind: str, rules: tuple[str, ...], *edits: tuple[int, str], end: int = 0) -> Site:
        line = self.source.line(i)
        return Site(
            self.source.tokens[i].start, line, kind, self.lines[line - 1].strip(), rules, list(edits), end
        )

    def _constants(self) -> set[int]:
        """Tokens of what is a constant whatever happens at run time: declarations, assertions, template arguments;
        and of what a contract says to the generator of cases."""
        source, fixed = self.source, set(self.source.in_template)
        for i, token in enumerate(source.tokens):
            if token.text in {
                "static_assert",
                "asm",
                "alignas",
                "enum",
                "__launch_bounds__",
                "requires",
                "decltype",
            }:
                fixed.update(range(i, source.until(i, {";", "{"}) + 1))
            elif token.text == "constexpr":
                end = source.until(i, {";", "=", "{"})
                if source.tokens[i - 1].text == "if":
                    fixed.update(range(i, source.partner[i + 1] + 1))
                elif source.tokens[end].text == "=" or (
                    source.tokens[end].text == "{"
                    and source.tokens[end - 1].kind == "word"
                    and not self._declares(i, end)
                ):
                    fixed.update(range(i, source.until(end, {";"}) + 1))
            elif (
                token.text in {"fill", "sizes", "option"}
                and source.tokens[i - 1].text == "."
                and i + 1 in source.partner
            ):
                # What cases draw is no fault of the op; the op's rendered page holds the ranges of options.
                fixed.update(range(i, source.partner[i + 1] + 1))
            elif token.text in ODDS and source.tokens[i + 1].text == "(":
                fixed.update(self._odds(i))
            elif token.text == "case":
                fixed.update(range(i, source.until(i, {":"}) + 1))
        return fixed

    def _odds(self, i: int) -> range:
        """`chance(20)`, `below(7) == 0`: all of it; of `below(size + 1)` nothing, for that bounds what is drawn."""
        tokens, last = self.source.tokens, self.source.partner[i + 1]
        if tokens[i].text == "below" and (last != i + 3 or tokens[i + 2].kind != "number"):
            return range(0)
        return range(i, last + (3 if tokens[last + 1].text in COMPARISONS else 1))

    def _declares(self, i: int, end: int) -> bool:
        """Whether parameters stand between: `constexpr int f() const {`."""
        return any(self.source.tokens[j].text == "(" for j in range(i, end))

    def _bodies(self) -> set[int]:
        """Tokens inside of functions and initialisers, where there are expressions."""
        inside: set[int] = set()
        for i, j in self.source.partner.items():
            if self.source.tokens[i].text == "{" and self._is_block(i):
                inside.update(range(i, j))
        return inside

    def _is_block(self, i: int) -> bool:
        before = self.source.tokens[i - 1].text if i else ""
        return before in {")", "else", "do", "const", "noexcept", "override", "mutable"} or (
            before == "]" and i in self.source.partner and self._is_lambda(i - 1)
        )

    def _is_lambda(self, i: int) -> bool:
        opening = self.source.partner.get(i, 0)
        return opening == 0 or self.source.tokens[opening - 1].text in {"(", ",", "=", "return", "{"}

    def _free(self, i: int) -> bool:
        return i in self.bodies and i not in self.fixed

    def _blocks(self) -> Iterator[Site]:
        """A probe where each block starts."""
        for i, token in enumerate(self.source.tokens):
            if token.text == "{" and self._is_block(i):
                opening = self.source.partner.get(i - 1)
                if opening and self.source.tokens[opening - 1].text == "switch":
                    continue
                if self.source.tokens[i + 1].text != "}":
                    yield self._site(i + 1, "here", (), (token.end, f" {NAME}here<{{id}}>();"))

    def _condition(self, first: int, last: int, kind: str, of: int) -> Site | None:
        tokens = self.source.tokens
        inside = range(first, last)
        if first >= last or any(tokens[j].text in {";", "="} and self._depth_is(first, j) for j in inside):
            return None
        rules = ("a condition that never holds", "a condition that always holds")
        edits = ((tokens[first].start, f"{NAME}{kind}<{{id}}>(bool("), (tokens[last - 1].end, "))"))
        return self._site(of, kind, rules[: 1 if kind == "loop" else 2], *edits)

    def _depth_is(self, first: int, at: int) -> bool:
        """Whether a token is outside of brackets that open from `first` on."""
        j = first
        while j < at:
            j = self.source.partner[j] + 1 if self.source.tokens[j].text in OPEN else j + 1
        return j == at

    def _conditions(self) -> Iterator[Site]:
        source = self.source
        for i, token in enumerate(source.tokens[:-1]):
            if (
                token.text not in {"if", "while", "for"}
                or source.tokens[i + 1].text != "("
                or not self._free(i)
            ):
                continue
            first, last = i + 2, source.partner[i + 1]
            if token.text == "for":
                first = source.until(first, {";"}) + 1
                last = min(source.until(first, {";"}), last)
                if first > last:
                    continue  # over a range
            site = self._condition(first, last, "condition" if token.text == "if" else "loop", i)
            if site:
                yield site

    def _operands(self) -> Iterator[Site]:
        """The right side of && and ||: a check that is left out."""
        ends = {"&&", "||", "?", ":", ";", ",", "="}
        for i, token in enumerate(self.source.tokens):
            if token.text in {"&&", "||"} and self.source.spaced(i) and self._free(i):
                if "..." in {self.source.tokens[i - 1].text, self.source.tokens[i + 1].text}:
                    continue  # a fold
                last = self.source.until(i + 1, ends - ({"&&"} if token.text == "||" else set()))
                site = self._condition(i + 1, last, "condition", i + 1)
                if site:
                    yield site

    def _arms(self) -> Iterator[Site]:
        """A probe in each arm of ?:."""
        tokens = self.source.tokens
        for i, token in enumerate(tokens):
            if token.text == "?" and self._free(i):
                j = self._arm(i + 1)
                for first in (i + 1, j + 1):
                    last = j if first == i + 1 else self._arm(first)
                    if tokens[first].text not in {"throw", "{"} and last > first:
                        edits = (
                            (tokens[first].start, f"({NAME}here<{{id}}>(), "),
                            (tokens[last - 1].end, ")"),
                        )
                        yield self._site(first, "here", (), *edits)

    def _arm(self, i: int) -> int:
        """The end of an arm of ?: that starts here: at its own colon, or where the expression ends."""
        depth = 0
        while True:
            i = self.source.until(i, {"?", ":", ";", ","})
            text = self.source.tokens[i].text
            if text not in {"?", ":"} or (text == ":" and depth == 0):
                return i
            depth += 1 if text == "?" else -1
            i += 1

    def _infix(self) -> Iterator[Site]:
        tokens = self.source.tokens
        for i, token in enumerate(tokens[1:], 1):
            before = tokens[i - 1]
            operand = (
                before.kind in {"number"}
                or before.text in {")", "]"}
                or (before.kind == "word" and before.text not in KEYWORDS)
            )
            if token.text in INFIX and self.source.spaced(i) and operand and self._free(i):
                if self._picks_an_extreme(i):
                    continue
                rule = "a comparison" if token.text in COMPARISONS else "an operator"
                yield self._site(i, "operator", (f"{rule}: {token.text} for {INFIX[token.text]}",),
                                 (token.end, f" {NAME}Infix<{{id}}>{{}} {token.text}"))  # fmt: skip

    def _picks_an_extreme(self, i: int) -> bool:
        """`a < b ? a : b`, which is the same with <=."""
        tokens, text = self.source.tokens, self.source.text
        question = self.source.until(i + 1, {"?", ":", ";", ",", "&&", "||"})
        if tokens[i].text not in {"<", "<=", ">", ">="} or tokens[question].text != "?":
            return False
        colon = self._arm(question + 1)
        if tokens[colon].text != ":":
            return False

        def between(first: int, last: int) -> str:
            return text[tokens[first].start : tokens[last - 1].end]

        arms = [between(question + 1, colon), between(colon + 1, self._arm(colon + 1))]
        right = between(i + 1, question)
        others = [arm for arm in arms if arm != right]
        return len(others) == 1 and text[: tokens[i - 1].end].endswith(others[0])

    def _literals(self) -> Iterator[Site]:
        for i, token in enumerate(self.source.tokens):
            if token.kind == "number" and self._free(i):
                real = re.search(r"^(?!0x).*[.e]", token.text)
                if real and not re.search("[1-9]", token.text):
                    continue  # a percent of nothing
                rule = "a constant off by a percent" if real else "a constant off by one"
                edits = ((token.start, f"{NAME}literal<{{id}}>("), (token.end, ")"))
                yield self._site(i, "literal", (rule,), *edits)

    def _statements(self) -> Iterator[Site]:
        """Calls and assignments that are left out; those that synchronise have a name of their own."""
        tokens = self.source.tokens
        for i, token in enumerate(tokens[1:], 1):
            before = tokens[i - 1].text
            starts = before in {";", "{", "}", "else"} or (before == ")" and self._controls(i - 1))
            if not starts or not self._free(i) or token.text in KEYWORDS or token.kind not in {"word"}:
                continue
            opener = self.source.opener[i]
            if tokens[opener].text != "{" or (before == "{" and not self._is_block(i - 1)):
                continue  # the head of a loop, or an initialiser
            last = self.source.until(i, {";"})
            if tokens[last].text != ";" or self._is_declaration(i, last):
                continue
            called = self.source.text[token.start : tokens[last].start].split("(")[0]
            if called.split("::")[-1] in HASTENS:
                continue
            waits = "=" not in called and any(word in called for word in SYNCHRONISES)
            rule = "a lost synchronisation" if waits else "a statement left out"
            edits = ((token.start, f"{{ if (!{NAME}mutated<{{id}}>()) "), (tokens[last].end, " }"))
            yield self._site(i, "statement", (rule,), *edits)

    def _controls(self, i: int) -> bool:
        """Whether the ) ends the condition of a statement."""
        opening = self.source.partner.get(i, 0)
        return opening > 0 and self.source.tokens[opening - 1].text in {"if", "for", "while", "constexpr"}

    def _is_declaration(self, first: int, last: int) -> bool:
        """`Type name = …;`, `Type name(…);`, `Type name;`, `Type* name`, or something else that is no call and no
        assignment."""
        tokens = self.source.tokens
        assigns = False
        i = first
        while i < last:
            a, b = tokens[i], tokens[i + 1]
            if a.text in {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}:
                assigns = True
                break
            if a.kind == "word" and b.kind == "word":
                return True
            if b.text == "(" and tokens[i + 2].text in {"&", "*"} and tokens[i + 4].text == ")":
                return True  # T(&name)[32]
            if (
                a.text in {">", "*", "&", "&&"}
                and b.kind == "word"
                and i > first
                and not self.source.spaced(i)
            ):
                return True
            i = self.source.partner[i] + 1 if a.text in OPEN and a.text != "{" else i + 1
            if a.text == "{":
                return True
        return not (assigns or tokens[last - 1].text == ")")

    def _bounds(self) -> Iterator[Site]:
        tokens = self.source.tokens
        for i, token in enumerate(tokens[2:], 2):
            if token.text not in {"min", "max"} or not self._free(i) or tokens[i + 1].text not in {"(", "<"}:
                continue
            if tokens[i - 1].text != "::" or tokens[i - 2].text != "std":
                continue
            word = "least" if token.text == "min" else "greatest"
            typed = tokens[i + 1].text == "<"
            if not typed and tokens[i + 2].text == "{":
                continue  # a list
            site = self._site(i - 2, "bound", (f"{token.text} for the other",),
                              (tokens[i - 2].start, f"{NAME}{word}<{{id}}" + (", " if typed else ">")))  # fmt: skip
            site.end = tokens[i + 1].end if typed else token.end
            yield site

    def _casts(self) -> Iterator[Site]:
        """Indices of 64 bits, and roundings of one argument."""
        source, tokens = self.source, self.source.tokens
        for i, token in enumerate(tokens[:-1]):
            if not self._free(i):
                continue
            if (
                token.text == "static_cast"
                and "int64_t" in source.text[token.start : source.text.find("(", token.start)]
            ):
                opening = next(j for j in range(i, len(tokens)) if tokens[j].text == "(")
                last = source.partner[opening]
                edits = ((token.start, f"{NAME}narrowed<{{id}}>("), (tokens[last].end, ")"))
                yield self._site(i, "cast", ("a narrowed index",), *edits)
            elif (
                "round" in token.text
                and tokens[i + 1].text == "("
                and tokens[i - 1].text not in {".", "->", "::"}
            ):
                last = source.partner[i + 1]
                argument = source.text[tokens[i + 1].end : tokens[last].start]
                if "," not in argument and argument and "(" not in argument:
                    edits = ((token.start, f"{NAME}unrounded<{{id}}>("), (tokens[last].end, f", {argument})"))
                    yield self._site(i, "cast", ("a rounding left out",), *edits)

    def _arguments(self) -> Iterator[Site]:
        """Two neighbouring plain arguments that change places: f(p.rows, p.stride)."""
        tokens = self.source.tokens
        for i, token in enumerate(tokens):
            if token.text != "," or not self._free(i):
                continue
            a, b = self._plain(i - 1, -1), self._plain(i + 1, 1)
            if a is None or b is None:
                continue
            left = self.source.text[tokens[a].start : tokens[i - 1].end]
            right = self.source.text[tokens[i + 1].start : tokens[b].end]
            opens = (
                tokens[a - 1].text == "("
                and tokens[a - 2].kind == "word"
                and tokens[a - 2].text not in KEYWORDS
            )
            if not opens or tokens[b + 1].text not in {",", ")"} or tokens[a - 2].text in COMMUTES:
                continue
            text = f"{NAME}first<{{id}}>({left}, {right}), {NAME}second<{{id}}>({left}, {right})"
            site = self._site(a, "arguments", ("two arguments that change places",), (tokens[a].start, text))
            site.end = tokens[b].end
            yield site

    def _plain(self, i: int, step: int) -> int | None:
        """The far end of `name` or `p.name` that starts or ends here."""
        tokens = self.source.tokens
        if tokens[i].kind != "word" or tokens[i].text in KEYWORDS | {"true", "false", "nullptr"}:
            return None
        while tokens[i + step].text in {".", "->"} and tokens[i + 2 * step].kind == "word":
            i += 2 * step
        beyond = tokens[i + step].text
        return i if beyond in {"(", ","} or (step > 0 and beyond == ")") else None
