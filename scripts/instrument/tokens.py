"""C++ as tokens: as much of the language as finding places for probes and mutants takes.

The sources are laid out by clang-format, which is part of how they are read: a binary operator has blanks on both
sides, a template's bracket has none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    |(?P<string>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark_>->\*?|::|\+\+|--|&&|\|\||<=>|<<=|>>=|<=|>=|==|!=|\+=|-=|\*=|/=|%=|&=|\|=|\^=|\.\.\.|[^\s\w])""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True)
class Token:
    kind: str  # word, number, string, mark
    text: str
    start: int
    end: int


class Source:
    """A file's tokens, each bracket's partner, and what is inside of template arguments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[Token] = []
        for found in _TOKEN.finditer(text):
            kind = found.lastgroup or ""
            if kind != "skip":
                self.tokens.append(Token("mark" if kind == "mark_" else kind, found.group(), *found.span()))
        self.opener: list[int] = []  # of each token, the innermost bracket that it is inside of, or -1
        self.partner = self._match()
        self.in_template = self._templates()

    def _match(self) -> dict[int, int]:
        partner: dict[int, int] = {}
        stack: list[int] = []
        for i, token in enumerate(self.tokens):
            self.opener.append(stack[-1] if stack else -1)
            if token.text in OPEN and token.kind == "mark":
                stack.append(i)
            elif token.text in CLOSE and token.kind == "mark" and stack:
                partner[i] = stack.pop()
                partner[partner[i]] = i
        return partner

    def spaced(self, i: int) -> bool:
        """Whether a blank stands on both sides."""
        token = self.tokens[i]
        return self.text[token.start - 1].isspace() and self.text[token.end].isspace()

    def _templates(self) -> set[int]:
        """The tokens between a template's brackets."""
        inside: set[int] = set()
        for i, token in enumerate(self.tokens):
            if token.text != "<" or i == 0 or self.spaced(i) or self.tokens[i - 1].kind != "word":
                continue
            depth, j = 0, i
            while j < len(self.tokens):
                text = self.tokens[j].text
                if text in OPEN:
                    j = self.partner.get(j, j)
                elif text in {";", "}", ")", "]"}:
                    break
                elif text == "<" and not self.spaced(j):
                    depth += 1
                elif text in {">", ">>"} and not self.spaced(j):
                    depth -= len(text)
                    if depth <= 0:
                        inside.update(range(i, j + 1))
                        break
                j += 1
        return inside

    def line(self, i: int) -> int:
        return self.text.count("\n", 0, self.tokens[i].start) + 1

    def until(self, i: int, stops: set[str]) -> int:
        """The first token from i on that is one of `stops` or closes a bracket, outside of brackets that open there."""
        while i < len(self.tokens):
            text = self.tokens[i].text
            if text in CLOSE or (text in stops and i not in self.in_template):
                return i
            i = self.partner[i] + 1 if text in OPEN and i in self.partner else i + 1
        return len(self.tokens) - 1
