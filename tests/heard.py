"""Which sentences of the tutor nobody hears. Nobody knows whether such a sentence is true.

    make answers ARGS="--fast 08_decentralized --unheard"

Sentences stand in text files beside the checks (`distlib.checks.sentences`). One is heard if the student of some
answer reads it, both what was seen and the usual cause. One that none hears needs an answer that earns it, or it goes.

Some are out of reach of answers on simulated ranks. They are heard in one of two other ways:

- The answer is one of those that only real ranks judge. Its "Told:" quotes the sentence, and `test_answers` looks.
- A test in tests/checks or tests/judge makes the error itself, messages that no program sends that gets its values
  right, or what the judge alone finds, and asserts `tells(text, "checks/errors.txt: not_sent")`.

`test_answers_fast` looks, when it has judged every answer. What is still unheard is in tests/unheard.txt; an unheard
sentence that is not there fails the test, and so does one that is there and is heard. So the list only gets shorter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Formatter

import distlib
from distlib.checks.sentences import read_entries

CAUSE = "Usual cause:"
TESTS = [Path(__file__).parent / name for name in ("checks", "judge")]
STILL_UNHEARD = Path(__file__).with_name("unheard.txt")


def unheard(files: Iterable[Path], told: Sequence[str]) -> list[str]:
    """The sentences that none of the texts `told` holds, as "decentralized/checks.txt: one_round".

    Args:
        files: of sentences.
        told: all that students read, a text for each test cell and answer.
    """
    texts = [" ".join(text.split()).casefold() for text in told]  # a sentence may stand within another one
    together = "\n".join(texts)
    return [
        f"{file.parent.name}/{file.name}: {name}"
        for file in files
        for name, template in read_entries(file).items()
        if not all(_is_in(part, texts, together) for part in template.split(CAUSE) if part.strip())
    ]


def tells(text: str, sentence: str) -> bool:
    """Whether a text holds a sentence, named like "checks/errors.txt: not_sent". Asserted, this counts as heard."""
    place, _, name = sentence.partition(": ")
    (file,) = Path(distlib.__file__).parent.rglob(place)
    return f"{place}: {name}" not in unheard([file], [text]) and name in read_entries(file)


def heard_by_tests(folders: Iterable[Path] = TESTS) -> set[str]:
    """The sentences that tests assert on: every `assert tells(…, "place: name")` in the files of these folders."""
    files = [path for folder in folders for path in folder.glob("test_*.py")]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    asserted = (node.test for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert))
    calls = (node for node in asserted if isinstance(node, ast.Call) and ast.unparse(node.func) == "tells")
    return {str(call.args[1].value) for call in calls if isinstance(call.args[1], ast.Constant)}


def _is_in(template: str, texts: Sequence[str], together: str) -> bool:
    """Whether a text holds the template, whatever is in its braces."""
    literals = list(_literals(template.strip().casefold()))
    longest = max(literals, key=len)
    if longest not in together:
        return False
    return any(_has_in_order(text, literals) for text in texts if longest in text)


def _has_in_order(text: str, literals: Sequence[str]) -> bool:
    """Whether a text has these, one behind the other. The first place of each is the best one."""
    position = 0
    for literal in literals:
        found = text.find(literal, position)
        if found < 0:
            return False
        position = found + len(literal)
    return True


def _literals(template: str) -> Iterator[str]:
    """What stands between the braces, in order; the first and the last may be empty."""
    for literal, field, _, _ in Formatter().parse(template):
        yield literal
        if field is not None:
            yield ""
