"""What the checks of exercises 17 and 17b are made of: patients that fail as they are, and incidents with one cause."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from distlib.checks import CheckFailed
from distlib.checks.case import Case
from distlib.checks.seen import Seen
from distlib.checks.task import Draw
from distlib.checks.venues import simulated_only
from distlib.exercises.hang_clinic import checks
from distlib.exercises.hang_clinic.by_hand import Riddle, in_words
from distlib.exercises.hang_clinic.printed_output import CAUSES, Incident, incident
from distlib.trace import Trace

RELEASED = [
    Path(__file__).parents[2] / "exercises" / name / f"{name}.ipynb" for name in ("17_hang_clinic", "17b_more_patients")
]
SICK = {  # what is told of each patient as students get it
    "log_mean_loss": "rank 0 calls a collective that the others do not call",
    "average_workers": "comm.split is a collective, too",
    "reduce_in_grid": "some ranks are in the group of their row",
    "train_epoch": "ranks have different numbers of batches",
    "train_until": "a rank stops by what it alone sees",
    "sum_of_files": "the error leaves the function on this rank alone",
    "average_by_name": "gradients were averaged that stand at the same place of their dicts",
    "gather_predictions": "the ranks have different numbers of predictions",
    "mean_over_samples": "a rank without samples makes a tensor of whole numbers",
    "blend_with_next": "the buffer is read before its message has come",
    "start_alike": "these are the weights that this rank has drawn itself",
}


def released() -> dict[str, str]:
    """The text of each cell that nbgrader knows, by name, as students get it in both exercises."""
    cells = [cell for path in RELEASED for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    marked = [cell for cell in cells if cell["cell_type"] == "code" and "nbgrader" in cell["metadata"]]
    return {cell["metadata"]["nbgrader"]["grade_id"]: "".join(cell["source"]) for cell in marked}


@pytest.mark.parametrize("function", SICK)
def test_a_patient_that_nobody_has_touched_is_sick_and_told_why(function: str) -> None:
    cells, notebook = released(), dict[str, Any](__name__="__main__")
    for name in ("setup", function):
        exec(compile(cells[name], f"{name}.py", "exec"), notebook)
    with simulated_only(), pytest.raises(CheckFailed) as failed:
        exec(compile(cells[f"{function}_visible"], "test.py", "exec"), notebook)
    assert SICK[function] in " ".join(str(failed.value).split())


def test_a_patient_is_short() -> None:
    for name in SICK:
        (function,) = ast.parse(released()[name]).body
        assert isinstance(function, ast.FunctionDef)
        docstring = function.body[0].end_lineno or 0
        assert 2 <= (function.end_lineno or 0) - docstring <= 10, name


# ── train_epoch and train_until ──────────────────────────────────────────────────────────────────────────────────────


def test_an_epoch_is_that_of_one_process_and_mistakes_give_other_weights() -> None:
    (case,) = checks.check_train_epoch.cases(Draw(3), epochs=[[[2, 1, 3], [1], []]])
    seen = Seen(case, [], Trace(3, []), True)
    weight, batches = case.inputs[0]["weight"].clone(), seen.given("batches")
    for rows in (torch.cat([batches[0][0], batches[1][0]]), batches[0][1], batches[0][2]):
        weight -= case.inputs[0]["rate"] * (weight - rows).mean(0)
    assert torch.allclose(checks.trained(seen), weight)
    for way in ("cut", "again", "last", "means", "ranks"):
        assert not torch.allclose(checks.trained(seen, way), weight), way


@pytest.mark.parametrize("seed", range(5))
def test_each_way_to_stop_takes_other_steps(seed: int) -> None:
    case: Case
    for case in checks.check_train_until.cases(Draw(seed), world_sizes=(3, 4)):
        facts = case.facts
        found = checks._ways_to_stop(facts["losses"], facts["target"])
        assert len({facts["steps"], *found.values()}) == 4
        assert facts["losses"][facts["steps"]].mean() <= facts["target"] < facts["losses"][facts["steps"] - 1].mean()


def test_a_target_below_all_losses_is_not_reached_and_each_step_changes_the_weight() -> None:
    (case,) = checks.check_train_until.cases(Draw(6), world_sizes=(), never=[3])
    weights, losses = case.facts["weights"], case.facts["losses"]
    assert case.facts["steps"] == 50 and losses.mean(1).min() > case.facts["target"]
    assert not torch.allclose(weights[50], weights[51], rtol=1e-6)


def test_sizes_and_rates_differ_from_case_to_case_and_from_each_other() -> None:
    epochs = list(checks.check_train_epoch.cases(Draw(1), epochs=[[[2, 1], [1]]] * 6))
    descents = list(checks.check_train_until.cases(Draw(1), world_sizes=(2, 3, 4)))
    for cases in (epochs, descents):
        assert len({case.inputs[0]["rate"] for case in cases}) == len(cases)
        assert len({len(case.inputs[0]["weight"]) for case in cases}) > 1
    for case in descents:
        assert len({case.world_size, *case.inputs[0]["samples"].shape}) == 3
    for first, *_ in (case.inputs for case in epochs):
        assert len(first["weight"]) not in {1, 2}  # numbers of rows, and of ranks


# ── diagnose ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def calls_of(lines: list[str]) -> list[str]:
    """The calls in a rank's output."""
    return [line for line in lines if re.fullmatch(r"train\.py:\d+ \w+ \[[\d, ]*\] \w+", line)]


def incidents(cause: str) -> list[Incident]:
    """Many of one cause."""
    return [incident(Draw(f"{cause} {seed}"), cause) for seed in range(40)]


@pytest.mark.parametrize("cause", CAUSES)
def test_one_rank_differs_from_all_others(cause: str) -> None:
    for found in incidents(cause):
        calls = [calls_of(list(lines)) for lines in found.outputs]
        own, (first, *more) = calls.pop(found.rank), calls
        assert all(other == first for other in more) and own != first
        assert first[-1].startswith(f"train.py:{found.others_line} ")
        if cause != "raised":
            assert own[-1].startswith(f"train.py:{found.line} ")


def test_ranks_lines_and_numbers_of_calls_are_drawn() -> None:
    every = [found for cause in CAUSES for found in incidents(cause)]
    of_a_step = {len({call.split()[0] for each in found.outputs for call in calls_of(list(each))}) for found in every}
    assert len(of_a_step) >= 4 and {len(str(found.line)) for found in every} == {1, 2, 3, 4}
    assert {found.rank for found in every} == {0, 1, 2, 3}
    assert len({found.line for found in every}) > 30


def test_how_an_output_ends_tells_causes_apart() -> None:
    for cause in ("raised", "finished", "killed", "slow"):
        for found in incidents(cause):
            own, others = found.outputs[found.rank], found.outputs[found.rank - 1]
            assert ("Traceback (most recent call last):" in own) == (cause == "raised")
            assert (own[-1] == "finished") == (cause == "finished")
            assert ("Timed out" in others[-1]) == (cause == "slow")


def test_a_call_of_another_line_is_known_from_earlier_steps_or_never_seen() -> None:
    for cause in ("skipped", "extra"):
        for found in incidents(cause):
            others = calls_of([line for rank, each in enumerate(found.outputs) if rank != found.rank for line in each])
            assert any(call.startswith(f"train.py:{found.line} ") for call in others) == (cause == "skipped")


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_riddle_says_what_is_wrong_and_then_how_long_it_took(capsys: pytest.CaptureFixture[str]) -> None:
    """The clock starts when the incident is shown, and stops at the first right answer."""
    times = iter([1000.0, 1130.4, 5000.0])
    riddle = Riddle(Draw(5), clock=lambda: next(times))
    right = riddle._incident
    riddle.show()
    assert capsys.readouterr().out.splitlines()[1:3] == [f"    {line}" for line in right.outputs[0][:2]]
    riddle.answer(right.rank, right.line + 1, "no such")
    riddle.answer(right.rank, right.line, right.cause)
    assert capsys.readouterr().out == "Not yet. Still wrong: line, cause.\nRight. You named it after 2 min 10 s.\n"
    riddle.show()
    capsys.readouterr()
    riddle.answer(right.rank, right.line, right.cause)
    assert capsys.readouterr().out == "Right. You named it after 2 min 10 s.\n"


def test_a_riddle_is_shown_before_it_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    Riddle(Draw(5)).answer(0, 0, "raised")
    assert capsys.readouterr().out == "Run the cell with riddle.show() first.\n"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (59.6, "1 min 0 s"), (42.0, "42 s"), (3725.0, "62 min 5 s")]
)
def test_a_time_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
