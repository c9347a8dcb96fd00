"""What a command checked, what it refused and why; as text, as JSON, as an exit code."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

PASSED, REFUSED, USAGE, ABSENT = 0, 1, 2, 3  # as the weft tool's own exit codes


class Refusal(Exception):
    """A rule that was broken; the message says which, where, and what to do."""


class Usage(Exception):
    """The command line, or a file of the task, is not what it should be."""


class Absent(Exception):
    """Something that the command needs is not on this machine."""


@dataclass
class Outcome:
    """Of one command."""

    command: str
    checked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    code: int = PASSED

    def check(self, what: str, wrong: str = "") -> bool:
        """One rule: `wrong` says how it is broken; empty where it holds."""
        if wrong:
            self.refused.append(f"{what}: {wrong}")
            self.code = REFUSED
        else:
            self.checked.append(what)
        return not wrong

    def note(self, text: str) -> None:
        self.notes.append(text)

    def require(self) -> None:
        """Ends the command where a rule so far is broken."""
        if self.refused:
            raise Refusal("")

    def text(self) -> str:
        lines = [f"ok       {what}" for what in self.checked]
        lines += [f"REFUSED  {what}" for what in self.refused]
        lines += self.notes
        verdict = {PASSED: "passed", REFUSED: "refused", USAGE: "not started", ABSENT: "not possible here"}
        return "\n".join([*lines, f"weft task {self.command}: {verdict[self.code]}"])

    def json(self) -> str:
        return json.dumps(
            {
                "command": self.command,
                "passed": self.code == PASSED,
                "code": self.code,
                "checked": self.checked,
                "refused": self.refused,
                "notes": self.notes,
                "data": self.data,
            }
        )
