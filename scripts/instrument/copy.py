"""The instrumented copy of an area's sources, written beside a build folder."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from instrument.area import ROOT, Area
from instrument.rules import Finder, Site


@dataclass(frozen=True)
class Place:
    """A site with its number and file."""

    id: int
    file: str
    site: Site

    def where(self) -> str:
        return f"{self.file}:{self.site.line}"


def rewrite(text: str, places: list[Place]) -> tuple[str, dict[int, list[tuple[int, int, int]]]]:
    """The text with all edits, and by line the columns at which each place's edits stand."""
    edits = []
    removed = []
    for place in places:
        site = place.site
        spots = site.edits
        first, last = min(at for at, _ in spots), max(at for at, _ in spots)
        for at, added in spots:
            closes = len(spots) > 1 and at == last and at != first
            # At one place: what ends there, the inner first, then what starts there, the outer first.
            order = (at, 0, -first, 0) if closes else (at, 1, -last, place.id)
            edits.append((order, at, added.replace("{id}", str(place.id)), place.id))
        if site.end:
            removed.append((site.start, site.end))
    parts: list[str] = []
    columns: dict[int, list[tuple[int, int, int]]] = {}
    position, line, column = 0, 1, 1

    def add(piece: str) -> None:
        nonlocal line, column
        parts.append(piece)
        line += piece.count("\n")
        column = len(piece) - piece.rfind("\n") if "\n" in piece else column + len(piece)

    for _, at, added, number in sorted(edits):
        if at > position:
            add(text[position:at])
            position = at
        columns.setdefault(line, []).append((column, column + len(added), number))
        add(added)
        position = max([position, *(end for start, end in removed if start == at)])
    add(text[position:])
    return "".join(parts), columns


class Copy:
    """The copy of one area, without the places that do not compile."""

    def __init__(self, area: Area, folder: Path, included: set[Path]) -> None:
        self.area = area
        self.folder = folder
        self.files = area.files(included)
        self.texts = {path: path.read_text() for path in self.files}
        self.places: list[Place] = []
        for path, text in self.texts.items():
            for site in Finder(text).sites():
                self.places.append(Place(len(self.places) + 1, str(path.relative_to(ROOT)), site))
        state = hashlib.sha256(repr([(str(path), text) for path, text in self.texts.items()]).encode())
        for rule in sorted(Path(__file__).parent.glob("*.py")):
            state.update(rule.read_bytes())
        self.state = state.hexdigest()
        self.dropped = self._remembered()
        self.columns: dict[str, dict[int, list[tuple[int, int, int]]]] = {}

    def _memory(self) -> Path:
        return self.folder / "dropped.json"

    def _remembered(self) -> set[int]:
        """What did not compile the last time, if the sources are the same."""
        if not self._memory().exists():
            return set()
        stored = json.loads(self._memory().read_text())
        return set(stored["dropped"]) if stored["state"] == self.state else set()

    def write(self) -> None:
        for path, text in self.texts.items():
            name = str(path.relative_to(ROOT))
            places = [place for place in self.places if place.file == name and place.id not in self.dropped]
            changed, self.columns[name] = rewrite(text, places)
            _replace(self.folder / "tree" / name, changed)
        for path in self._tests():
            _replace(self.folder / "tree" / path.relative_to(ROOT), path.read_text())
        self._memory().write_text(json.dumps({"state": self.state, "dropped": sorted(self.dropped)}))

    def _tests(self) -> list[Path]:
        """An op's tests include its sources by names that are relative to their own folder."""
        return sorted((ROOT / self.area.folder).glob("test*.cpp"))

    def drop(self, complaints: list[tuple[str, int, int]]) -> int:
        """Leaves out the places that the compiler complains of; returns how many."""
        before = len(self.dropped)
        for file, line, column in complaints:
            spans = self.columns.get(file, {}).get(line, [])
            exact = {number for first, last, number in spans if first <= column < last}
            self.dropped |= exact or {number for _, _, number in spans}
        return len(self.dropped) - before

    def describe(self) -> list[dict[str, object]]:
        return [{"id": place.id, "file": place.file, **asdict(place.site)} for place in self.places]


def _replace(path: Path, text: str) -> None:
    """Leaves a file that is right alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
