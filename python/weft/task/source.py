"""Where the baseline comes from: copies of files of a git repository or of a wheel, and whether they still are."""

from __future__ import annotations

import datetime
import json
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from weft.task.fingerprint import of_bytes, sources
from weft.task.outcome import Absent, Outcome, Refusal, Usage
from weft.task.spec import Task

FILE = "baseline/source.json"
PAGE = "docs/baseline_source.md"


def _git(*words: str, folder: Path | None = None) -> bytes:
    command = ["git", *(["-C", str(folder)] if folder else []), *words]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise Refusal(f"{' '.join(command)}: {done.stderr.decode().strip().splitlines()[-1:]}")
    return done.stdout


def _branch_head(url: str, branch: str) -> tuple[str, str]:
    """The branch (its default one where none is named) and its newest commit."""
    if not branch:
        lines = _git("ls-remote", "--symref", url, "HEAD").decode().splitlines()
        names = [line.split()[1] for line in lines if line.startswith("ref:")]
        branch = names[0].removeprefix("refs/heads/") if names else "HEAD"
    found = _git("ls-remote", url, branch if branch == "HEAD" else f"refs/heads/{branch}").decode().split()
    if not found:
        raise Refusal(f"{url} has no branch {branch}")
    return branch, found[0]


def _from_git(url: str, branch: str, commit: str, files: Sequence[str]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _git("init", "-q", folder=folder)
        deep = [] if Path(url).exists() else ["--filter=blob:none"]
        _git("fetch", "-q", *deep, url, branch, folder=folder)
        return {file: _git("show", f"{commit}:{file}", folder=folder) for file in files}


def _origin(url: str) -> str:
    """A local clone by where it came from: nobody else has its folder."""
    if not Path(url).exists():
        return url
    done = subprocess.run(
        ["git", "-C", url, "remote", "get-url", "origin"], capture_output=True, text=True, check=False
    )
    origin = done.stdout.strip()
    return origin if done.returncode == 0 and "://" in origin else f"local clone {Path(url).resolve().name}"


def git(url: str, branch: str, commit: str, files: Sequence[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Files of a branch's newest commit, or of an older one."""
    # Git would look for a relative folder from the top of the repository around it.
    place = str(Path(url).resolve()) if Path(url).exists() else url
    branch, newest = _branch_head(place, branch)
    chosen = commit or newest
    origin = {"kind": "git", "url": _origin(url), "branch": branch, "commit": chosen}
    return origin, _from_git(place, branch, chosen, files)


def _license(found: metadata.PackageMetadata) -> str:
    for field in ("License-Expression", "License"):
        value = found.get(field)  # type: ignore[attr-defined]
        if value:
            return str(value).splitlines()[0]
    return "not said in its metadata"


def wheel(package: str, files: Sequence[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Files of an installed package, or of a wheel file."""
    if package.endswith(".whl"):
        return _wheel_file(Path(package), files)
    try:
        found = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        raise Absent(f"the package {package} is not installed here (a .whl file does as well)") from None
    origin = {
        "kind": "wheel",
        "package": package,
        "version": found.version,
        "license": _license(found.metadata),
    }
    contents = {}
    for file in files:
        path = Path(str(found.locate_file(file)))
        if not path.is_file():
            raise Refusal(f"{package} {found.version} has no file {file}")
        contents[file] = path.read_bytes()
    return origin, contents


def _wheel_file(path: Path, files: Sequence[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    if not path.is_file():
        raise Absent(f"there is no {path}")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        found = metadata.PathDistribution(
            zipfile.Path(archive, str(PurePosixPath(about).parent) + "/")
        ).metadata
        missing = [file for file in files if file not in names]
        if missing:
            raise Refusal(f"{path.name} has no file {missing[0]}")
        origin = {
            "kind": "wheel",
            "package": str(found["Name"]),
            "version": str(found["Version"]),
            "license": _license(found),
        }
        return origin, {file: archive.read(file) for file in files}


def read(task: Task) -> dict[str, Any]:
    path = task.folder / FILE
    return json.loads(path.read_text()) if path.exists() else {}


def take(
    task: Task,
    outcome: Outcome,
    origin: dict[str, Any],
    contents: dict[str, bytes],
    *,
    flags: Sequence[str],
    committed: bool,
) -> None:
    """Writes the copies, their hashes, and the page that says where they are from."""
    if read(task):
        changed = edited(task)
        if changed:
            raise Refusal(f"{changed[0]}: put it back, or remove baseline/source.json to start over")
    for file, data in contents.items():
        path = task.folder / "baseline" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        outcome.check(f"{file} is copied ({of_bytes(data)[:16]}, {len(data.splitlines())} lines)")
    source = {
        **origin,
        "resolved": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "upstream_flags": list(flags),
        "committed": committed,
        "files": [
            {"path": file, "sha256": of_bytes(data), "lines": len(data.splitlines())}
            for file, data in contents.items()
        ],
    }
    (task.folder / FILE).write_text(json.dumps(source, indent=1) + "\n")
    if not committed:
        _ignore(task, contents)
    write_page(task)
    outcome.data["source"] = source


def _ignore(task: Task, files: Iterable[str]) -> None:
    """Keeps copies that are not committed out of git's sight."""
    path = task.folder / ".gitignore"
    lines = path.read_text().splitlines() if path.exists() else []
    wanted = dict.fromkeys(f"baseline/{file}" for file in files)
    path.write_text("\n".join([*lines, *(line for line in wanted if line not in lines)]) + "\n")


def restore(task: Task, outcome: Outcome, where: str) -> None:
    """Makes the copies again, from the same commit or version, and compares them with what was recorded."""
    source = read(task)
    if not source:
        raise Refusal("no baseline was copied yet: there is nothing to restore")
    files = [entry["path"] for entry in source["files"]]
    if not edited(task):
        outcome.check(f"all {len(files)} copies are here already, with the recorded hashes")
        return
    if source["kind"] == "git":
        _, contents = git(where or source["url"], source["branch"], source["commit"], files)
    else:
        origin, contents = wheel(where or source["package"], files)
        if origin["version"] != source["version"]:
            raise Refusal(
                f"{source['package']} {origin['version']} is here, the baseline is {source['version']}"
            )
    for entry in source["files"]:
        path = task.folder / "baseline" / entry["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents[entry["path"]])
    for wrong in edited(task):
        outcome.check("the copies are what was recorded", wrong)
    outcome.check(f"{len(files)} files of {title(source)} are here again, with the recorded hashes")


def edited(task: Task) -> list[str]:
    """Copies that are missing, or not what was copied."""
    found = []
    for entry in read(task).get("files", []):
        path = task.folder / "baseline" / entry["path"]
        if not path.exists():
            found.append(f"baseline/{entry['path']} is missing (weft task baseline --restore brings it back)")
        elif of_bytes(path.read_bytes()) != entry["sha256"]:
            found.append(
                f"baseline/{entry['path']} was edited after it was copied: its hash is "
                f"{of_bytes(path.read_bytes())[:16]}, that of the copy {entry['sha256'][:16]}"
            )
    return found


def inspect(task: Task, outcome: Outcome) -> None:
    """Is the baseline what it says it is?"""
    source = read(task)
    if not outcome.check(
        "the baseline's source is recorded",
        "" if source else "there is no baseline/source.json: `weft task baseline` copies one and records it",
    ):
        return
    wrong = edited(task)
    for what in wrong:
        outcome.check("the baseline is the copy", what)
    if not wrong:
        outcome.check(f"{len(source['files'])} copied files are those of {title(source)}")
    page = task.folder / PAGE
    current = page.exists() and page.read_text() == render(task)
    outcome.check(
        f"{PAGE} says where they are from",
        ""
        if current
        else "it is missing, or is not what baseline/source.json says: it is rendered, never typed",
    )


def title(source: dict[str, Any]) -> str:
    if source["kind"] == "git":
        return f"{source['url']} at {source['commit'][:12]}"
    return f"{source['package']} {source['version']}"


def write_page(task: Task) -> None:
    path = task.folder / PAGE
    path.parent.mkdir(exist_ok=True)
    path.write_text(render(task))


def render(task: Task) -> str:
    """docs/baseline_source.md."""
    source = read(task)
    copied = {f"baseline/{entry['path']}" for entry in source["files"]} | {FILE}
    own = [p for p in sources(task, "baseline") if str(p.relative_to(task.folder)) not in copied]
    facts = {
        "git": ("url", "branch", "commit"),
        "wheel": ("package", "version", "license"),
    }[source["kind"]]
    lines = [
        f"# Baseline of {task.name}",
        "",
        "Rendered by `weft task baseline` from `baseline/source.json`.",
        "",
    ]
    lines += [f"- {name}: {source[name]}" for name in facts]
    lines += [f"- resolved: {source['resolved']}"]
    lines += [f"- upstream's compiler flags: {' '.join(source['upstream_flags']) or 'none recorded'}"]
    lines += [
        "- the copies are committed"
        if source["committed"]
        else "- the copies are not committed: `weft task baseline --restore` makes them again and compares hashes"
    ]
    lines += ["", "| file | lines | SHA-256 |", "|---|---:|---|"]
    lines += [f"| {e['path']} | {e['lines']} | `{e['sha256']}` |" for e in source["files"]]
    if own:
        names = ", ".join(f"`{p.relative_to(task.folder)}`" for p in own)
        lines += ["", f"Written for this task, with no line of upstream's: {names}."]
    return "\n".join(lines) + "\n"


def arguments(given: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What `weft task baseline` was asked to copy."""
    if not given.file:
        raise Usage("say which files are copied: --file PATH, once for each")
    if given.git:
        return git(given.git, given.branch, given.commit, given.file)
    return wheel(given.wheel, given.file)
