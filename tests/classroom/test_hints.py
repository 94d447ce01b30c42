"""Hints: three for each graded function, none of them the solution, and a sentence where there is none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
import pytest

from distlib.classroom import hint
from distlib.classroom.self_check.hints import FREE, NoHint, all_hints, hints_in
from distlib.classroom.self_check.results import FAILS, NOT_WRITTEN, PASSES, WAITS, FunctionRow, Result, Results
from distlib.cli import main

ROOT = Path(__file__).parents[2]
SOLUTIONS = sorted(ROOT.glob("solutions/*/*.py"))
SHORTEST = 16  # characters of a line that is more than a word or two of Python


def solutions_of(path: Path) -> dict[str, str]:
    """By graded function, what stands between the marks of its solution."""
    cells = re.split(r"(?m)^(?=# %%)", path.read_text(encoding="utf-8"))
    marked = {found[1]: cell for cell in cells if (found := re.match(r'# %% solution="(\w+)"', cell))}
    return {
        name: "\n".join(re.findall(r"### BEGIN SOLUTION\n(.*?)###", cell, re.DOTALL)) for name, cell in marked.items()
    }


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_each_graded_function_has_three_hints_in_its_notebook(path: Path) -> None:
    functions = list(solutions_of(path))
    label = path.stem.partition("_")[0]
    assert [each.function for each in all_hints() if each.exercise == label] == functions
    released = nbformat.read(ROOT / "exercises" / path.stem / f"{path.stem}.ipynb", as_version=4).cells
    ids = [cell.id for cell in released]
    for each in all_hints():
        if each.exercise == label:
            assert len(set(each.texts)) == 3
            assert ids.index(f"{each.function}_hints") == ids.index(each.function) + 1
            assert released[ids.index(f"{each.function}_hints")].source == each.folded()


def test_hints_are_of_graded_functions_only() -> None:
    graded = {name for path in SOLUTIONS for name in solutions_of(path)}
    assert {each.function for each in all_hints()} <= graded


@pytest.mark.parametrize("path", SOLUTIONS, ids=lambda path: path.stem)
def test_no_hint_quotes_a_line_of_the_solution(path: Path) -> None:
    label = path.stem.partition("_")[0]
    for each in all_hints():
        if each.exercise == label:
            assert quoted(solutions_of(path)[each.function], each.texts) == []


def quoted(solution: str, texts: tuple[str, ...]) -> list[str]:
    """The lines of a solution that stand in a text, however it is spaced."""
    lines = {re.sub(r"\s", "", line.partition("#")[0]) for line in solution.splitlines()}
    said = re.sub(r"[\s`]", "", " ".join(texts))
    return sorted(line for line in lines if len(line) >= SHORTEST and line in said)


def test_a_hint_that_is_the_solution_is_noticed() -> None:
    solution = solutions_of(SOLUTIONS[0])["shift"]
    line = "comm.exchange(tensor, next_rank, incoming, previous_rank)"
    assert quoted(solution, (f"Write `{line}`.",)) == [line.replace(" ", "")]


def test_no_hint_holds_a_statement() -> None:
    """What stands in backticks is a name, a call's name or an example of text."""
    for each in all_hints():
        for code in re.findall(r"`([^`]*)`", " ".join(each.texts)):
            try:
                tree = ast.parse(code)
            except SyntaxError:
                continue  # a list of nodes of Slurm's
            calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
            assert not any(isinstance(called, ast.Name | ast.Attribute) for called in calls), (each.function, code)
            assert not any(isinstance(node, ast.Assign) for node in ast.walk(tree)), (each.function, code)


def test_hints_open_one_inside_of_the_other() -> None:
    shift = hint("shift")
    page = shift._repr_html_()
    assert page.count("<details>") == page.count("</details>") == 3 and "\n\n" not in page
    assert page.endswith("</details></details></details>") and "open>" not in page
    assert page.index(FREE) < page.index(shift.texts[0]) < page.index(shift.texts[1]) < page.index(shift.texts[2])


def test_as_text_they_come_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    for number, text in enumerate(hint("gather").texts, start=1):
        assert main(["hint", "gather", *([str(number)] if number > 1 else [])]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert text in said
        assert (f"distlib hint gather {number + 1}. {FREE}" in said) == (number < 3)
    assert str(hint("gather", 2)) == repr(hint("gather", 2))


def test_two_functions_of_one_name_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NoHint, match=r'hint\("ring_all_reduce", exercise="02"\) or hint\(.*exercise="14"\)'):
        hint("ring_all_reduce")
    assert hint("ring_all_reduce", exercise="14_jax").exercise == "14"
    assert main(["hint", "ring_all_reduce", "--exercise", "02"]) == 0
    assert "distlib hint ring_all_reduce 2 --exercise 02" in capsys.readouterr().out


@pytest.mark.parametrize(
    "asked, sentence",
    [
        ("shfit", "There is no hint for 'shfit'. Did you mean shift or shard_input?"),
        ("18_gpus", "There is no hint for '18_gpus'. Graded functions of the exercises have hints."),
        ("09", "Those of exercise 09 are gpipe, one_forward_one_backward, run_stage."),
        ("06b_how_large", "Those of exercise 06b_how_large are warmup_learning_rate, local_sgd_round."),
    ],
)
def test_a_hint_that_is_not_there_is_said(asked: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hint", asked]) == 1
    assert sentence in " ".join(capsys.readouterr().err.split())
    with pytest.raises(NoHint) as told:
        hint(asked)
    assert told.value._render_traceback_() == [str(told.value)]


def test_other_numbers_and_other_exercises_are_said() -> None:
    with pytest.raises(NoHint, match="shift has hints 1, 2 and 3, and no hint 4"):
        hint("shift", 4)
    with pytest.raises(NoHint, match="no hint for 'shift' in exercise 02. Graded functions"):
        hint("shift", exercise="02")


def test_a_file_with_other_hints_than_three_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hints.txt").write_text("double_1: Twice what?\ndouble_2: Add it to itself.\n")
    with pytest.raises(ValueError, match="NAME_1, NAME_2 and NAME_3"):
        hints_in(tmp_path)
    assert hints_in(tmp_path / "elsewhere") == []


def test_a_heading_begins_the_hints_of_the_next_exercise(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""Exercise 03: trees."""\n')
    hints = {name: "".join(f"{name}_{number}: What?\n" for number in (1, 2, 3)) for name in ("climb", "fell", "plant")}
    (tmp_path / "hints.txt").write_text(
        f"# Three of each.\n{hints['climb']}\n# Exercise 03b\n{hints['fell']}{hints['plant']}"
    )
    found = {each.function: each.exercise for each in hints_in(tmp_path)}
    assert found == {"climb": "03", "fell": "03b", "plant": "03b"}


def test_a_check_that_does_not_pass_names_the_way_to_the_hints() -> None:
    rows = [
        FunctionRow("shift", Result(PASSES), Result(PASSES)),
        FunctionRow("broadcast", Result(FAILS), Result(WAITS)),
    ]
    assert Results("01_messages", "", rows, []).notes == [
        "Stuck? Three hints can be opened below the cell of broadcast.",
        "In a terminal: distlib hint broadcast",
    ]
    not_written = FunctionRow("reduce", Result(NOT_WRITTEN), Result(WAITS))
    assert Results("01_messages", "", [not_written, *rows], []).notes[1] == "In a terminal: distlib hint broadcast"
    assert Results("01_messages", "", [not_written], []).notes[1] == "In a terminal: distlib hint reduce"
    assert Results("01_messages", "", rows[:1], []).notes == []
    assert Results("90_of_a_teacher", "", rows, []).notes == []
