"""Whether a text is Python, and of which version: read by this Python, and by newer ones that this machine has."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from distlib import python_text
from distlib.python_text import here, shown, version_in, why_not_python
from tests.tools.broken_answers import NEWER

SINCE_3_11 = [
    "x = f\"{d['a']!r:>{w}} {{}} \\n\"",
    'y = f"""{\n1}"""',
    "with (open('a') as f, open('b') as g): pass",
    "try:\n    pass\nexcept* ValueError:\n    pass",
    "%%time\n%pip x\nfoo?\nx = !ls\ndef f(): return 1",
    "await x",
    'x = "\\d"',
]


def test_what_an_older_python_reads_is_python() -> None:
    assert [source for source in SINCE_3_11 if why_not_python(source, (3, 11))] == []


def test_what_only_the_compiler_finds_is_looked_for_in_one_function() -> None:
    source = "return 3\ndef f(): return 1\ndef g():\n    nonlocal x"
    found = {name: why_not_python(source, None, name) for name in ("", "f", "g")}
    assert found["f"] is None
    assert found[""] and (found[""].line, found[""].why) == (1, "'return' outside function")
    assert found["g"] and found["g"].line == 4


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("3.12.1", (3, 12)),
        ("3.9", (3, 9)),
        (" 3.15.0rc1\n", (3, 15)),
        ("", None),
        ("3", None),
        ("x3.1", None),
        (3, None),
    ],
)
def test_a_version(text: object, version: tuple[int, int] | None) -> None:
    assert version_in(text) == version


@pytest.mark.parametrize("python", ["python3.12", "python3.13", "python3.14", "python3.15"])
def test_a_newer_python_knows_what_an_older_one_can_not_read(python: str) -> None:
    """Of what it can read itself, it names all; and it takes nothing for newer that is not."""
    if not shutil.which(python) or subprocess.run([python, "-V"], capture_output=True, timeout=60).returncode:
        pytest.skip(f"there is no {python} here")
    program = (
        f"import json, sys; sys.path.insert(0, {str(Path(python_text.__file__).parent)!r}); import python_text\n"
        "texts = json.load(sys.stdin)\n"
        "print(json.dumps([[bool(python_text.why_not_python(text, v)) for text in texts] for v in (None, (3, 11))]))"
    )
    newer = [source for source, since in NEWER.values() if since <= python.removeprefix("python")]
    given = json.dumps([*newer, *SINCE_3_11])
    done = subprocess.run([python, "-c", program], input=given, capture_output=True, text=True, timeout=60, check=True)
    expected = [[False] * (len(newer) + len(SINCE_3_11)), [True] * len(newer) + [False] * len(SINCE_3_11)]
    assert json.loads(done.stdout) == expected


def test_what_a_newer_python_may_read_is_only_said_by_an_older_one() -> None:
    found = {way: why_not_python(source) for way, (source, _) in NEWER.items()}
    for way, (_, since) in NEWER.items():
        if (version_in(since) or here()) > here():
            assert found[way] and f"(Python {since})" in found[way].newer, way
        else:
            assert found[way] is None, f"{way} in Python {shown(here())}"
