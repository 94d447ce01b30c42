"""Whether tests notice what they must: right answers are changed by machine, and those that keep all marks are read.

    make answers ARGS="--mutants 05_ddp"                      of all functions of an exercise
    make answers ARGS="--mutants 05_ddp assign_buckets"       of one
    make answers ARGS="--mutants 05_ddp --most 30"            at most so many of each answer, always the same
    make answers ARGS="--mutants 05_ddp --styles 9"           of more right answers than the solution and one other

Changed are the solution and the right answer that is least like it; `tests.mutations` says how. A mutant that
keeps all marks either does what the text asks for in another way; then it stands in `mutants_that_are_right.txt`,
below the reason. Or it shows what no test asks for: then the hidden test gets a case. The status is 0 if the mutants
that keep all marks are those that stand there:

    # The buffer is written to in full.
    05_ddp average_gradients/solution: `torch.empty_like(flat)` → `torch.zeros_like(flat)` in `buffer = …`
"""

from __future__ import annotations

import argparse
import ast
import pickle
import random
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path

from distlib.process_limits import limit_to
from tests.answer_files import Answer, read_answers
from tests.answer_verdicts import KINDS
from tests.answers_fast import ROOT, SLOW, Cell, Judged, Said, cells_of, judge, judge_all, without_header
from tests.mutations import NOTED, Mutant, Noted, Site, mutants_of, noting

RIGHT = Path(__file__).with_name("mutants_that_are_right.txt")
STYLES, MOST = 2, 10_000
SECONDS = 8  # of the processor, for a mutant: an answer takes some tenths of one, and what takes longer does not end


@dataclass(frozen=True)
class Found:
    """What became of the mutants of one exercise.

    Attributes:
        made: how many there were, by function.
        survivors: as lines of `mutants_that_are_right.txt`, in their order.
    """

    made: Mapping[str, int]
    survivors: Sequence[str]


def find(
    assignment: str, functions: Sequence[str] = (), styles: int = STYLES, most: int = MOST, jobs: int = 2
) -> Found:
    """Judge the mutants of some functions of an exercise; of all if none is named.

    Args:
        styles: how many right answers of a function are changed.
        most: mutants of one answer; a sample if there are more.

    Raises:
        ValueError: an answer that is changed does not have full marks itself.
    """
    chosen = [each for each in right_answers(assignment, styles) if not functions or each.function in functions]
    mutants: dict[str, tuple[Answer, str]] = {}
    for answer, noted in zip(chosen, _observed(chosen, jobs), strict=True):
        lines = answer.text.splitlines()
        every = mutants_of(answer.text, noted)
        for number, mutant in enumerate(_sample(every, most, str(answer))):
            where = lines[mutant.line - 1].strip()
            change = f"{assignment} {answer}: `{_short(mutant.old)}` → `{_short(mutant.new)}` in `{where}`"
            name = f"{answer.name} {number}"
            mutants[f"{answer.function}/{name}"] = (
                Answer(assignment, answer.function, name, mutant.text),
                change,
            )
    judged = judge_all([answer for answer, _ in mutants.values()], jobs=jobs, work=_hastily)
    survivors = [mutants[str(each.answer)][1] for each in judged if keeps_all(each)]
    return Found(Counter(answer.function for answer, _ in mutants.values()), survivors)


def keeps_all(judged: Judged) -> bool:
    """Whether an answer has all marks."""
    return not any(judged.said[kind].error for kind in KINDS)


def right_answers(assignment: str, styles: int) -> list[Answer]:
    """Of each function the solution, and the right answers that are least like it, without what they are called."""
    answers = [each for each in read_answers(assignment) if each.is_right and str(each) not in SLOW]
    chosen = []
    for cell in [cell for cell in cells_of(assignment, ROOT) if cell.is_solution]:
        solution = Answer(assignment, cell.name, "solution", _without_docstrings(cell.source))
        others = [
            Answer(assignment, cell.name, each.name, without_header(each.text))
            for each in answers
            if each.function == cell.name
        ]
        others.sort(key=lambda each: SequenceMatcher(None, solution.text, each.text).ratio())
        chosen += [solution, *others[: styles - 1]]
    return chosen


def explained() -> list[str]:
    """The mutants that are right, as lines."""
    return [line for line in RIGHT.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def _without_docstrings(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _short(text: str) -> str:
    return text.strip().splitlines()[0]


def _sample(every: Sequence[Mutant], most: int, name: str) -> Sequence[Mutant]:
    return every if len(every) <= most else random.Random(name).sample(every, most)


def _hastily(answer: Answer, cells: Sequence[Cell]) -> dict[str, Said]:
    limit_to(resource.RLIMIT_CPU, SECONDS)
    return judge(answer, cells, until_lost=True)


# ── what the visible test shows ──────────────────────────────────────────────────────────────────────────────────────


def _observed(answers: Sequence[Answer], jobs: int) -> list[dict[Site, Noted]]:
    """What was noted of each answer in its visible test."""
    for judged in judge_all(answers, jobs=jobs, work=_hastily):
        if not keeps_all(judged):
            raise ValueError(f"{judged.answer} is changed, so it must have full marks itself: {judged.said}")
    with tempfile.TemporaryDirectory(prefix="distlib-") as folder:
        noting_ones = [replace(each, text=noting(each.text)) for each in answers]
        for judged in judge_all(noting_ones, jobs=jobs, work=partial(_and_note, Path(folder))):
            if judged.said["visible"].error:
                raise ValueError(f"{judged.answer} fails when it notes its values: {judged.said['visible'].error}")
        return [pickle.loads(_notes(Path(folder), each).read_bytes()) for each in answers]


def _and_note(folder: Path, answer: Answer, cells: Sequence[Cell]) -> dict[str, Said]:
    said = judge(answer, [cell for cell in cells if not cell.name.endswith("_hidden")])
    _notes(folder, answer).write_bytes(pickle.dumps(NOTED))
    return said


def _notes(folder: Path, answer: Answer) -> Path:
    return folder / f"{answer.function} {answer.name}"


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge mutants and print those that keep all marks. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make answers", description="Change right answers, and judge them.")
    parser.add_argument("assignment", help="an exercise, such as 05_ddp")
    parser.add_argument("functions", nargs="*", help="functions; without them: all")
    parser.add_argument("--mutants", action="store_true", help="accepted, because `make answers` passes it on")
    parser.add_argument("--all", action="store_true", help="print those, too, that keep all marks and are right")
    parser.add_argument(
        "--styles", type=int, default=STYLES, help="how many right answers of each function are changed"
    )
    parser.add_argument("--most", type=int, default=MOST, help="mutants of one answer")
    parser.add_argument("--jobs", type=int, default=2, help="how many mutants at a time")
    options = parser.parse_args(arguments)
    found = find(options.assignment, options.functions, options.styles, options.most, options.jobs)
    right = set(explained())
    for function, made in found.made.items():
        kept = [line for line in found.survivors if line.split("/")[0] == f"{options.assignment} {function}"]
        known = sum(line in right for line in kept)
        print(f"{function}: {made} mutants, {made - len(kept)} lose marks, {known} are right, {len(kept) - known} open")
    unknown = [line for line in found.survivors if line not in right]
    print("\n".join(["", *(found.survivors if options.all else unknown)]))
    whole = not options.functions and options.styles == STYLES and options.most == MOST
    known_here = {line for line in right if line.startswith(f"{options.assignment} ")}
    gone = sorted(known_here - set(found.survivors)) if whole else []
    if gone:
        print("\n".join(["Explained, and no more there, or they lose marks now:", *gone]))
    return 1 if unknown or gone else 0


if __name__ == "__main__":
    sys.exit(main())
