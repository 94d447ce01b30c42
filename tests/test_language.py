"""The prose of the course reads as a careful native writer has it: turns of phrase that crept in before stay out.

Each pattern is one that was repaired everywhere. Where one is right for once, name the place in ALLOWED.
"""

import functools
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "contributing").glob("*.md")),
    ROOT / "solutions" / "README.md",
    ROOT / "solutions" / "SYLLABUS.md",
    ROOT / "docker" / "README.md",
    ROOT / "ANYWHERE.md",
    ROOT / "distlib" / "classroom" / "student_copies" / "AGENTS.md",
]
SOURCES = [path for name in ("course", "solutions", "distlib") for path in sorted((ROOT / name).rglob("*.py"))]
SENTENCES = sorted((ROOT / "distlib").rglob("*.txt"))  # of the tutor, and hints

BANNED = {
    r"\bbeside\b": "say besides, next to, against, or in the background: whichever is meant",
    r"\btold (so|with)\b": "a report names …, a rank gets an error",
    r"\b(is|are|was|were|be) through\b(?! (rank|the|a)\b)": "a call is done, a message has arrived",
    r"\b(of|to|at most|exactly|have|takes|is) so (many|long)\b|: so (many|long) ": "say this many, this long",
    r"\banother \w+ than\b|\bother (dtype|memory|ranks|tensor|order) than\b": "an X different from, or other than",
    r"\b(is|are|or) no (number|power|integer)\b": "say is not a …, is NaN",
    r"\balso none\b": "say nor one",
    r"\bNot together with\b": "say: cannot be combined with",
    r"\b(bytes|all-reduce|one|socket|pipes?|GPU|numbers?) a (rank|parameter|bucket|sample)\b(?! (sen|ha)[ds])"
    r"|\b(file|folder|column|row|lines) a (student|function|test)\b": "say per rank, per parameter",
    r"\bbrings? (a )?right\b|\bby (a )?right ones?\b": "a test supplies correct versions",
    r"\blook that\b(?! up)": "check that",
    r"\bsmall questions\b": "name what stands below the heading",
    r"[.] Who (has|sends|receives|waits|holds) [^.?]{1,40} (can|gets|puts|passes|hands)\b": "every rank that has …",
    r"\"\"\"(Both|The same)[.,]": "a docstring says it, without the one before",
    r"\(planned\)|, planned[,)]": "it is there by now: name the lesson",
    r"\bthe ranks from \w+ on hand\b": "ranks 4 and up send …",
    r"\bbelongs into\b|\bwent around\b": "must contain; was sent",
    r"\b(in|from) another one hardly\b|\bAmong each other\b": "an idiom by ear",
}

ALLOWED = {  # a banned phrase, as it stands in a file
    "distlib/draw/predictions/prediction.py": {"beside", "is no number"},
    "course/04_data_parallel.py": {"takes so many"},
    "course/05_ddp.py": {"is no number", "all-reduce a parameter", "bytes a rank", "one a parameter"},
}


@functools.cache
def prose(path: Path) -> str:
    """The text of a document; of a program its comments and strings, each wrapped text on one line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        text = "\n".join(t.string for t in tokens if t.type in (tokenize.COMMENT, tokenize.STRING))
    return re.sub(r"\s*\n(?:#|\s)*", " ", text)


@pytest.mark.parametrize("pattern", BANNED)
def test_an_accent_stays_out(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: … {text[max(0, match.start() - 40) : match.end() + 30]} …"
        for path, text in ((path, prose(path)) for path in [*DOCUMENTS, *SOURCES, *SENTENCES])
        for match in re.finditer(pattern, text)
        if match.group() not in ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
    ]
    assert not found, f"{BANNED[pattern]}:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "sentence",
    [
        "A deadlock is told with its calls.",
        "One all-reduce a parameter.",
        "Communicate beside what the rank goes on to do.",
        "Block until all of them are through.",
        "A message of at most so many bytes.",
        "The message has another dtype than the tensor.",
        "N is no power of two.",
        '"""Both."""',
        "It is cheap. Who has the tensor can help.",
    ],
)
def test_a_phrase_is_recognized(sentence: str) -> None:
    assert any(re.search(pattern, sentence) for pattern in BANNED), sentence
