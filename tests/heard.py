"""Which sentences of the tutor no answer hears. Nobody knows whether such a sentence is true.

    make answers ARGS="--fast 08_decentralized --unheard"

Sentences stand in text files beside the checks (`distlib.checks.sentences`). One is heard if the student of some
answer reads it, both what was seen and the usual cause. One that none hears needs an answer that earns it, or it goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Formatter

from distlib.checks.sentences import read_entries

CAUSE = "Usual cause:"


def unheard(files: Iterable[Path], told: Sequence[str]) -> list[str]:
    """The sentences that none of the texts `told` holds, as "decentralized/checks.txt: one_round".

    Args:
        files: of sentences.
        told: all that students read, a text for each test cell and answer.
    """
    texts = [" ".join(text.split()) for text in told]
    together = "\n".join(texts)
    return [
        f"{file.parent.name}/{file.name}: {name}"
        for file in files
        for name, template in read_entries(file).items()
        if not all(_is_in(part, texts, together) for part in template.split(CAUSE) if part.strip())
    ]


def _is_in(template: str, texts: Sequence[str], together: str) -> bool:
    """Whether a text holds the template, whatever is in its braces."""
    literals = list(_literals(template.strip()))
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
