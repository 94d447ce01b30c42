"""What ran in each of a student's notebooks, and which one was worked on last.

A notebook shows what ran in it: its cells have numbers then. It forgets that when an update brings a newer version, and
its time changes when the folder is copied. So what was seen is kept, with a hash of the file: as long as the file is
the same, it was worked on when it was worked on before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from distlib.classroom.my_course.kept_files import KeptFileError, read_kept, write_kept
from distlib.classroom.student_copies.copy_paths import FOLDER
from distlib.classroom.student_copies.notebook_json import Cell, Notebook, text_of

NOTEBOOKS = "notebooks.json"
_NOT_COUNTED = {"folded", "skip-execution"}  # tags of cells that are not run on the way through a lesson


@dataclass(frozen=True)
class SeenNotebook:
    """What is known of one notebook.

    Attributes:
        ran: how many of its code cells have run; folded ones are not counted.
        cells: how many there are.
        worked: when it was worked on last; ISO 8601, in UTC. "" if it never was.
        content: a hash of the file.
    """

    ran: int
    cells: int
    worked: str
    content: str

    @property
    def share(self) -> float:
        """How much of it has run, from 0 to 1."""
        return self.ran / self.cells if self.cells else 0.0


def look_at(
    path: Path, data: bytes, notebook: Notebook, before: SeenNotebook | None, *, is_written: bool
) -> SeenNotebook:
    """What a notebook shows now, and what is known of it from before. The larger share of what ran counts.

    Args:
        path: of the student's notebook.
        data, notebook: its bytes, and the same as JSON.
        before: what was kept.
        is_written: whether a function is written in it.
    """
    content = sha256(data).hexdigest()[:20]
    counted = [cell for cell in notebook["cells"] if _is_counted(cell)]
    ran = sum(bool(cell.get("execution_count") or cell.get("outputs")) for cell in counted)
    now = SeenNotebook(ran, len(counted), "", content)
    best = before if before and before.share > now.share else now
    if before and before.content == content:
        worked = before.worked
    elif ran or is_written:
        worked = datetime.fromtimestamp(int(path.stat().st_mtime), UTC).isoformat()
    else:
        worked = before.worked if before else ""
    return SeenNotebook(best.ran, best.cells, worked, content)


def _is_counted(cell: Cell) -> bool:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    folded = isinstance(tags, list) and any(tag in _NOT_COUNTED for tag in tags if isinstance(tag, str))
    return cell.get("cell_type") == "code" and bool(text_of(cell).strip()) and not folded


def kept_before(course: Path) -> tuple[dict[str, SeenNotebook], str]:
    """By a notebook's path in `work/`: what was kept of it. And a sentence, if what was kept can't be read."""
    try:
        kept = read_kept(course, NOTEBOOKS).get("notebooks")
    except KeptFileError as error:
        return {}, str(error)
    pairs = kept.items() if isinstance(kept, dict) else ()
    return {name: seen for name, entry in pairs if (seen := _seen(entry))}, ""


def _seen(entry: Any) -> SeenNotebook | None:
    """An entry of the file; None if somebody has changed it beyond use."""
    try:
        seen = SeenNotebook(**entry)
        if seen.worked:
            datetime.fromisoformat(seen.worked)
        return seen if 0 <= seen.ran <= seen.cells and isinstance(seen.content, str) else None
    except (TypeError, ValueError):
        return None


def keep_seen(course: Path, seen: Mapping[str, SeenNotebook]) -> str:
    """Keep what was seen, where it is not kept already. Returns what a student should know; "" for nothing.

    Raises:
        OSError: the folder can't be written.
    """
    before, _ = kept_before(course)
    worked_on = {name: each for name, each in sorted({**before, **seen}.items()) if each.worked}
    if worked_on == before or not (course / FOLDER).is_dir():
        return ""
    return write_kept(course, NOTEBOOKS, {"notebooks": {name: asdict(each) for name, each in worked_on.items()}})


def worked_last(seen: Mapping[str, SeenNotebook]) -> str:
    """The path, in `work/`, of the notebook that was worked on last; "" if none was."""
    times = {name: each.worked for name, each in seen.items() if each.worked}
    return max(times, key=lambda name: (times[name], name), default="")
