"""What a student has handed in: which notebook, when, and the cells in it.

None of it is believed, followed or run. Of a notebook only the cells' kind, text and metadata are read. Outputs are
skipped before the file is parsed, so that a notebook with 300 MB of outputs costs a second and little memory.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell

from distlib.classroom.grader.file_kind import BEGIN, EMPTY, NO_CELLS, FileKind, kind_of, looks_like_a_notebook
from distlib.classroom.grader.handed_in_time import EXAMPLE, OddTime, names_zone, quoted, utc_of
from distlib.printable import printable
from distlib.python_text import shown, version_in

MOST_BYTES = 2 << 30  # of a notebook file
MOST_BYTES_OF_CELLS = 32 << 20  # of what is left of it without outputs
MOST_CELLS = 1_000
_TIMESTAMP = "timestamp.txt"  # of nbgrader's
_MOST_NAMED = 4  # files in a message
_MOST_ENTRIES = 10_000  # files and folders that are looked at in one submission

_OUTPUTS = re.compile(rb'"outputs"\s*:\s*\[')
_NEXT_BRACKET = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+([\[\]{}])', re.DOTALL)


class CannotGrade(Exception):
    """A submission that can't be graded. The message says why, and what to do."""


@dataclass(frozen=True)
class HandedCell:
    """A cell of a submitted notebook.

    Attributes:
        kind: "code", "markdown" or "raw".
        source: its text.
        cell_id: the notebook's id of the cell, "" if there is none.
        metadata: as found; {} if it is no dictionary.
        attachments: as found.
    """

    kind: str
    source: str
    cell_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    attachments: Any = None

    @property
    def mark(self) -> dict[str, Any]:
        """nbgrader's metadata of the cell, {} if there are none."""
        mark = self.metadata.get("nbgrader")
        return mark if isinstance(mark, dict) else {}

    @property
    def grade_id(self) -> str:
        """nbgrader's name of the cell, "" if there is none."""
        name = self.mark.get("grade_id")
        return name if isinstance(name, str) else ""

    @property
    def is_as_released(self) -> bool:
        """Whether it is as it was when nbgrader released it, by the checksum that nbgrader wrote into it then."""
        if not self.grade_id or "checksum" not in self.mark:
            return False
        from nbgrader.utils import compute_checksum  # takes more than a second: a student's check need not wait

        make = new_code_cell if self.kind == "code" else new_markdown_cell
        try:
            return bool(compute_checksum(make(self.source, metadata={"nbgrader": self.mark})) == self.mark["checksum"])
        except (KeyError, TypeError, ValueError):  # marks that somebody has edited
            return False


@dataclass(frozen=True)
class Submission:
    """A notebook that was handed in.

    Attributes:
        cells: in their order.
        remarks: what the instructor should know about the file.
        python: the version that it was written with, such as "3.12"; "" if it does not say.
    """

    cells: list[HandedCell]
    remarks: list[str]
    python: str = ""


def find_notebook(folder: Path, assignment: str) -> tuple[Path, list[str]]:
    """The notebook in a student's folder that is to be graded, and remarks about the choice.

    Raises:
        CannotGrade: there is none, or it is unclear which one it is.
    """
    if folder.parent.is_symlink() or folder.is_symlink():
        raise CannotGrade("the folder is a link; links are not followed")
    found, links = _notebooks(folder)
    ignored = [f"links are not followed: {_listed(links)}"] if links else []
    expected = f"{assignment}.ipynb"
    if expected in found:
        others = [name for name in found if name != expected]
        return folder / expected, ignored + ([f"also handed in, not graded: {_listed(others)}"] if others else [])
    if len(found) == 1:
        return folder / found[0], [*ignored, f"the notebook is called {found[0]} instead of {expected}"]
    if found:
        raise CannotGrade(f"there are {len(found)} notebooks ({_listed(found)}), none called {expected}: keep one")
    why = f"; {ignored[0]}" if ignored else _what_else(folder)
    raise CannotGrade(f"there is no notebook {expected}{why}")


def read_submission(path: Path) -> Submission:
    """The cells of a notebook file, of any version of the format.

    Raises:
        CannotGrade: it can't be read or is no notebook.
    """
    with _opened(path) as data:
        try:
            book, remarks = _parsed(data)
        except _NotParsed as error:
            raise CannotGrade(_not_a_notebook(path, kind_of(data, is_cut=error.is_cut))) from None
    if (cells := _cells(book)) is None:
        raise CannotGrade(_not_a_notebook(path, NO_CELLS))
    if len(cells) > MOST_CELLS:
        raise CannotGrade(f"{path.name} has more than {MOST_CELLS:,} cells")
    read = [_cell(cell) for cell in cells if isinstance(cell, dict)]
    return Submission(read, remarks + _kernel_remarks(book), _python_of(book))


def what_is(path: Path) -> str:
    """What a file is, for a list of files: "a PDF file", or that it is a notebook."""
    try:
        with _opened(path) as data:
            if looks_like_a_notebook(bytes(data[:BEGIN])):
                return "a notebook with an unusual name"
            return kind_of(data).what
    except CannotGrade:
        return "a file that can't be read"


def read_timestamp(folder: Path) -> tuple[datetime | None, list[str]]:
    """When it was handed in (UTC), as nbgrader's file timestamp.txt says; None without one. And remarks."""
    time, text, why = _time_in(folder)
    if time is not None:
        assumed = f"{_TIMESTAMP} names no time zone and was taken as UTC: {time:%Y-%m-%d %H:%M:%S} UTC"
        return time, [] if names_zone(text) else [assumed]
    if not why:
        return None, []
    right = f"if you know it, replace it by the right one, such as {EXAMPLE}"
    said = f"says {quoted(text)!r}, which {why}" if text else why
    return None, [f"{_TIMESTAMP} {said}: no time of handing in, no penalty for being late; {right}"]


def write_timestamp(folder: Path, time: datetime) -> None:
    """Note when it was handed in (UTC, without a time zone), as nbgrader does.

    Raises:
        OSError: it can't be written.
    """
    (folder / _TIMESTAMP).write_text(f"{time:%Y-%m-%d %H:%M:%S} UTC\n")


def why_no_time(folder: Path) -> str:
    """Why it is not known when it was handed in, in short: "no timestamp.txt"; "" if it is known."""
    time, text, why = _time_in(folder)
    if time is not None:
        return ""
    return f"{quoted(text)} {why}" if text else f"{_TIMESTAMP} {why}" if why else f"no {_TIMESTAMP}"


def _time_in(folder: Path) -> tuple[datetime | None, str, str]:
    """The time (UTC) that timestamp.txt says, or None; its text; and why it is not used, "" if there is no file."""
    path, text = folder / _TIMESTAMP, ""
    if not os.path.lexists(path):
        return None, "", ""
    try:
        with _opened(path, most_bytes=1_000) as data:
            text = bytes(data).decode()
        return utc_of(text), text, ""
    except (CannotGrade, UnicodeDecodeError):
        return None, "", "can't be read"
    except OddTime as error:
        return None, text, str(error)


def fingerprint(path: Path) -> str:
    """A hash of a file's bytes.

    Raises:
        CannotGrade: it can't be read.
    """
    with _opened(path) as data:
        return hashlib.sha256(data).hexdigest()


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _notebooks(folder: Path) -> tuple[list[str], list[str]]:
    """The notebooks below a folder, as relative paths, and the links."""
    notebooks, links = [], []
    for name, entry in _walk(folder, ""):
        if entry.is_symlink():
            links.append(name)
        elif name.endswith(".ipynb") and entry.is_file(follow_symlinks=False):
            notebooks.append(name)
    return sorted(notebooks), sorted(links)


def _walk(folder: Path, prefix: str, depth: int = 0) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Everything below a folder except hidden files, links not followed."""
    try:
        entries = sorted(os.scandir(folder / prefix), key=lambda entry: entry.name)
    except OSError as error:
        raise CannotGrade(f"the folder {prefix or '.'} can't be read: {error.strerror}") from None
    if len(entries) > _MOST_ENTRIES:
        raise CannotGrade(f"the folder {prefix or '.'} has more than {_MOST_ENTRIES:,} files")
    for entry in entries:
        if entry.name.startswith((".", "__MACOSX")):
            continue
        name = f"{prefix}{entry.name}"
        yield name, entry
        if entry.is_dir(follow_symlinks=False) and depth < 4:
            yield from _walk(folder, f"{name}/", depth + 1)


def _what_else(folder: Path) -> str:
    others = [name for name, entry in _walk(folder, "") if entry.is_file(follow_symlinks=False)]
    others = [name for name in others if name != _TIMESTAMP]
    if not others:
        return ": the folder is empty"
    quoted = [f"{name} ({what_is(folder / name)})" for name in others[:_MOST_NAMED]]
    return f", only {_listed(quoted, len(others))}"


def _listed(names: list[str], number: int = 0) -> str:
    """Some names in one line, whatever is in them. number: how many there are, if these are only the first ones."""
    more = max(len(names), number) - _MOST_NAMED
    return ", ".join(map(printable, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


@contextmanager
def _opened(path: Path, most_bytes: int = MOST_BYTES) -> Iterator[Any]:
    """The bytes of a regular file, without reading them all at once."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CannotGrade(f"{path.name} can't be read: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CannotGrade(f"{path.name} is no ordinary file")
        if not status.st_size:
            raise CannotGrade(_not_a_notebook(path, EMPTY))
        if status.st_size > most_bytes:
            raise CannotGrade(f"{path.name} is larger than {most_bytes >> 20} MiB")
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            yield data
    finally:
        os.close(descriptor)


def _not_a_notebook(path: Path, kind: FileKind) -> str:
    return f"{path.name} is not a notebook: {kind}"


class _NotParsed(Exception):
    """A file is not JSON. is_cut: it is, up to its end, where something is missing."""

    def __init__(self, *, is_cut: bool) -> None:
        super().__init__()
        self.is_cut = is_cut


def _parsed(data: Any) -> tuple[Any, list[str]]:
    """The JSON in a file, without outputs, and remarks."""
    text, remarks = _decode(_skip_outputs(_as_ascii_superset(data)))
    try:
        return json.loads(text), remarks
    except json.JSONDecodeError as error:
        at_the_end = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        raise _NotParsed(is_cut=at_the_end) from None
    except (ValueError, RecursionError):
        raise _NotParsed(is_cut=False) from None


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_ascii_superset(data: Any) -> Any:
    """UTF-16, which Windows likes, as UTF-8; everything else as it is."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return bytes(data).decode("utf-16", "replace").encode("utf-8", "replace")
    return data


def _skip_outputs(data: Any) -> bytes:
    """The JSON text with every list of outputs empty."""
    kept, position, room = [], 0, MOST_BYTES_OF_CELLS
    while True:
        found = _OUTPUTS.search(data, position)
        end = found.end() if found else len(data)
        room -= end - position
        if room < 0:
            raise CannotGrade(f"the notebook has more than {MOST_BYTES_OF_CELLS >> 20} MiB without its outputs")
        kept.append(data[position:end])
        if not found:
            return b"".join(kept)
        position = _end_of_list(data, end)


def _end_of_list(data: Any, position: int) -> int:
    """Where the list ends that is open at `position`: the index of its bracket."""
    depth = 1
    while depth:
        found = _NEXT_BRACKET.match(data, position)
        if found is None:
            raise _NotParsed(is_cut=True)
        depth += 1 if found[1] in b"[{" else -1
        position = found.end()
    return position - 1


def _decode(data: bytes) -> tuple[str, list[str]]:
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return data.decode("latin-1"), ["the notebook is not in UTF-8; it was read as Latin-1"]


def _cells(book: Any) -> list[Any] | None:
    """The cells of a notebook of format 1 to 4, as they stand there; None if there are none."""
    raw = book.get("cells") if isinstance(book, dict) else None
    if raw is None and isinstance(book, dict):
        sheets = book.get("worksheets")
        sheets = sheets if isinstance(sheets, list) else []
        raw = [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or []]
    return raw if isinstance(raw, list) and raw else None


def _cell(raw: dict[str, Any]) -> HandedCell:
    kind = raw.get("cell_type")
    kind = kind if kind in ("code", "raw") else "markdown"
    source = raw.get("source", raw.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    source = _clean(source) if isinstance(source, str) else ""
    cell_id, metadata = raw.get("id"), raw.get("metadata")
    return HandedCell(
        kind,
        source,
        cell_id if isinstance(cell_id, str) else "",
        metadata if isinstance(metadata, dict) else {},
        raw.get("attachments"),
    )


def _clean(source: str) -> str:
    """Text with the newlines of Unix that every encoding takes."""
    return re.sub("\r\n?", "\n", source).encode("utf-8", "replace").decode()


def _python_of(book: dict[str, Any]) -> str:
    """The version of Python that a notebook names; "" for none, and for what is no version."""
    metadata = book.get("metadata")
    language = metadata.get("language_info") if isinstance(metadata, dict) else None
    version = version_in(language.get("version")) if isinstance(language, dict) else None
    return shown(version) if version else ""


def _kernel_remarks(book: dict[str, Any]) -> list[str]:
    """A remark when the notebook says that it is in another language."""
    metadata = book.get("metadata")
    entries = [metadata.get(key) for key in ("kernelspec", "language_info")] if isinstance(metadata, dict) else []
    kernel, language = ((entry if isinstance(entry, dict) else {}) for entry in (entries or [{}, {}]))
    named = str(kernel.get("language") or language.get("name") or "python")
    return [] if named == "python" else [f"the notebook is made for another kernel ({named[:40]}); it ran in Python"]
