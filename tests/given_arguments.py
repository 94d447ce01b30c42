"""What tests hand over to graded functions: each size of each argument, in the visible and in the hidden test.

    python -m tests.given_arguments 05_ddp                   the sizes that the hidden test leaves as they are
    python -m tests.given_arguments 05_ddp --all             all sizes, and their values

A size is a number, the length of a list, or a dimension of a tensor: "batch.shape[1]", "len(sizes)", "sizes[]".
A constant that fits the visible test must fail the hidden one, so each size has a value there that it has not in the
visible test. Those that the text fixes stand in `sizes_the_text_fixes.txt`, below the reason.
"""

from __future__ import annotations

import argparse
import ast
import pickle
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.answer_files import Answer
from tests.answer_verdicts import KINDS
from tests.answers_fast import Cell, Said, judge, judge_all
from tests.argument_sizes import GIVEN
from tests.mutants import right_answers

FIXED = Path(__file__).with_name("sizes_the_text_fixes.txt")
Sizes = Mapping[str, set[float]]  # the values of a size, by the name of that


def noting(text: str) -> str:
    """An answer whose functions, or whose class's methods, note what they are called with."""
    tree = ast.parse(text)
    for outer in tree.body:
        inner = outer.body if isinstance(outer, ast.ClassDef) else [outer]
        for node in [each for each in inner if isinstance(each, ast.FunctionDef)]:
            method = f"{node.name}: " if isinstance(outer, ast.ClassDef) else ""
            node.body.insert(0, ast.parse(f"given_to_the_answer({method!r}, locals())").body[0])
    return f"from tests.argument_sizes import given as given_to_the_answer\n{ast.unparse(tree)}"


# ── by kind of test ──────────────────────────────────────────────────────────────────────────────────────────────────


def sizes_in_tests(assignment: str, functions: Sequence[str] = (), jobs: int = 2) -> dict[str, dict[str, Sizes]]:
    """By graded function, and by kind of test, the values of each size.

    Raises:
        ValueError: the solution, noting what it is given, fails.
    """
    solutions = [each for each in right_answers(assignment, 1) if not functions or each.function in functions]
    answers = [Answer(assignment, each.function, "solution", noting(each.text)) for each in solutions]
    found: dict[str, dict[str, Sizes]] = defaultdict(dict)
    with tempfile.TemporaryDirectory(prefix="distlib-") as folder:
        for kind in KINDS:
            for judged in judge_all(answers, jobs=jobs, work=partial(_and_note, Path(folder), kind)):
                if judged.said[kind].error:
                    raise ValueError(f"{judged.answer} fails when it notes what it gets: {judged.said[kind].error}")
                notes = Path(folder, f"{judged.answer.function} {kind}")
                found[judged.answer.function][kind] = pickle.loads(notes.read_bytes())
    return found


def _and_note(folder: Path, kind: str, answer: Answer, cells: Sequence[Cell]) -> dict[str, Said]:
    said = judge(answer, [cell for cell in cells if cell.points is None or cell.name == f"{answer.function}_{kind}"])
    Path(folder, f"{answer.function} {kind}").write_bytes(pickle.dumps(dict(GIVEN)))
    return said


def left_as_they_are(visible: Sizes, hidden: Sizes) -> list[str]:
    """The sizes that have no value in the hidden test that the visible one does not show."""
    return [name for name in sorted(hidden) if hidden[name] <= visible.get(name, set())]


def fixed_by_the_text() -> list[str]:
    """The sizes that need not vary: "05_ddp assign_buckets: len(sizes)"."""
    return [line for line in FIXED.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print sizes. Returns the exit status: 0 if each varies or stands in the list of those that the text fixes."""
    parser = argparse.ArgumentParser(prog="python -m tests.given_arguments", description="What tests hand over.")
    parser.add_argument("assignment", help="an exercise, such as 05_ddp")
    parser.add_argument("functions", nargs="*", help="functions; without them: all")
    parser.add_argument("--all", action="store_true", help="print all sizes and their values")
    parser.add_argument("--left", action="store_true", help="print those, too, that the text fixes")
    options = parser.parse_args(arguments)
    fixed, status = fixed_by_the_text(), 0
    for function, kinds in sizes_in_tests(options.assignment, options.functions).items():
        left = left_as_they_are(kinds["visible"], kinds["hidden"])
        for name in sorted(kinds["hidden"]):
            line = f"{options.assignment} {function}: {name}"
            is_open = name in left and line not in fixed
            status = max(status, int(is_open))
            if is_open or options.all or (options.left and name in left):
                print(line, *(f"| {kind} {_shown(kinds[kind].get(name, set()))}" for kind in KINDS))
    return status


def _shown(numbers: set[float]) -> str:
    return " ".join(f"{number:g}" for number in sorted(numbers)[:12]) + (" …" if len(numbers) > 12 else "")


if __name__ == "__main__":
    sys.exit(main())
