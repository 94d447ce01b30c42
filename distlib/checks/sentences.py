"""What students read, in a text file next to the module that says it: `checks.txt` for `checks.py`.

    one_round: this is one round. Repeat it `rounds` times.
    strangers: row {i}, column {j} is {weight:.10g}, but ranks {i} and {j} are not neighbors.
        Usual cause: only neighbors talk. Elsewhere, but for the diagonal, the weight is 0.

An entry begins at the left with its name and a colon; a line that goes on with it is indented. A line that begins with
# is a heading for whoever reads the file. What is in braces is filled in, as by `str.format`. A module asks by name:

    say = Sentences(__file__)
    say("one_round")                                     the text
    say.remark("strangers", i=1, j=2, weight=W[1, 2])    a remark: what was seen, and after "Usual cause:" its cause
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from distlib.checks.remark import Remark

_CAUSE = "Usual cause:"


class Sentences:
    """The sentences of one module, by name.

    Args:
        module: its `__file__`. The text file has the same name, and ends with .txt.

    Attributes:
        templates: the texts by name, with their {braces}.

    Raises:
        ValueError: the text file is no list of entries, or two of them have the same name.
    """

    def __init__(self, module: str) -> None:
        self.file = Path(module).with_suffix(".txt")
        self.templates = read_entries(self.file)

    def __call__(self, name: str, /, **values: Any) -> str:
        """The text of this name, with `values` in the places of its {braces}."""
        return self.templates[name].format(**values)

    def remark(self, name: str, /, *details: str, **values: Any) -> Remark:
        """The text as a remark: what comes before "Usual cause:" was seen.

        Args:
            details: the lines between the two, such as `rules.values.compared`.
        """
        seen, _, cause = self(name, **values).partition(_CAUSE)
        return Remark(seen.strip(), details, cause.strip())


def read_entries(file: Path) -> dict[str, str]:
    """The entries of a text file, each on one line.

    Raises:
        ValueError: a line belongs to no entry, or two entries have the same name.
    """
    entries: dict[str, str] = {}
    name = ""
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, colon, line = line.partition(":")
            if not colon or not name.isidentifier() or name in entries:
                raise ValueError(f"{file.name}, line {number}: expected a new name and a colon, got {name!r}{colon}")
            entries[name] = ""
        elif not name:
            raise ValueError(f"{file.name}, line {number}: it belongs to no name")
        entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries
