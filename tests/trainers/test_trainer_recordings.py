"""What comes with the package: each program is short, its recording is whole, and its numbers are what they must be."""

from __future__ import annotations

import ast
from itertools import groupby

import pytest
from torch import nn

from distlib.trainers import PROGRAMS, TRAPS, CallRow, TrainerReport, changed, recorded_trap, recording, table_of
from distlib.trainers.same_task import STEPS, WideClassifier
from distlib.trainers.trainer_report import call_rows
from distlib.training.buckets import assign_buckets
from distlib.training.zero import bytes_sent_by_stage, padded_bytes_by_stage

SIZES = [parameter.nbytes for parameter in WideClassifier().parameters()]
LENGTH, RANKS = sum(SIZES) // 4, 2
TORCHS_DDP = ("ddp", "fabric", "lightning", "accelerate", "ray")


@pytest.fixture(scope="module")
def recorded() -> dict[str, TrainerReport]:
    return {name: recording(name) for name in PROGRAMS}


def sent(rows: object) -> int:
    return sum(row.sent(RANKS) for row in rows)  # type: ignore[attr-defined]


# Programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_short_and_whole(name: str) -> None:
    source = PROGRAMS[name].source
    assert len(source.splitlines()) <= 35
    assert max(map(len, source.splitlines())) <= 120
    assert ast.get_docstring(ast.parse(source))
    assert "finish(" in source and "loss_of(" in source and "manual_seed(0)" in source


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "ddp"])
def test_what_changes_is_less_than_the_program(name: str) -> None:
    lines = changed(name).splitlines()
    assert lines and all(line.startswith(("- ", "+ ")) for line in lines)
    kept = [line for line in PROGRAMS["ddp"].source.splitlines() if f"- {line}" not in lines]
    assert "    loss = loss_of(ddp, batch)" in kept or name.startswith(("deepspeed", "lightning", "ours", "ray"))


def test_plain_ddp_changes_nothing() -> None:
    assert changed("ddp") == ""


def test_only_the_stage_differs_between_those_of_deepspeed() -> None:
    assert PROGRAMS["deepspeed_3"].source == PROGRAMS["deepspeed_0"].source.replace('"stage": 0', '"stage": 3')
    assert PROGRAMS["deepspeed_3"].source != PROGRAMS["deepspeed_0"].source


# Recordings


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recording_says_where_it_comes_from(name: str, recorded: dict[str, TrainerReport]) -> None:
    report = recorded[name]
    assert report.name == name and report.recorded
    assert set(report.versions) == {"Python", "torch", *([PROGRAMS[name].package] if PROGRAMS[name].package else [])}
    assert report.day.startswith("20") and report.command == PROGRAMS[name].command
    assert report.processes == len(report.process_names) >= RANKS
    assert report.seconds_to_first_step > 0 and report.load > 0
    assert (report.megabytes > 1) == bool(PROGRAMS[name].package)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_is_plain_ddps(name: str, recorded: dict[str, TrainerReport]) -> None:
    assert recorded[name].difference <= 1e-5
    assert recorded[name].loss == pytest.approx(recorded["ddp"].loss, abs=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_that_is_printed_tells_of_this_machine(name: str, recorded: dict[str, TrainerReport]) -> None:
    text = "\n".join([*recorded[name].lines, *recorded[name].process_names])
    assert [word for word in ("/root", "/home/", "/work/", "/tmp/", "litlogger", "usage stat") if word in text] == []


def test_reports_stand_side_by_side(recorded: dict[str, TrainerReport]) -> None:
    lines = table_of(recorded.values()).splitlines()
    assert len(lines) == len(PROGRAMS) + 1
    assert "1 all_gather" in lines[1 + list(PROGRAMS).index("deepspeed_2")]


# Collectives, against the formulas of lessons 05 and 11


@pytest.mark.parametrize("name", [*TORCHS_DDP, "ours"])
def test_a_step_of_ddp_is_an_all_reduce_for_each_bucket(name: str, recorded: dict[str, TrainerReport]) -> None:
    buckets = [sum(SIZES[index] for index in bucket) for bucket in assign_buckets(SIZES, 25 << 20, 1 << 20)]
    rows = [row for row in recorded[name].step_calls if row.collective != "broadcast"]
    assert rows == [CallRow("all_reduce", 1, size) for size in buckets]
    assert sent(rows) == bytes_sent_by_stage([LENGTH], RANKS)[0]
    others = [row for row in recorded[name].step_calls if row not in rows]
    assert others == ([CallRow("broadcast", 1, 8)] if name == "lightning" else [])


@pytest.mark.parametrize("name", TORCHS_DDP)
def test_torchs_first_step_is_a_single_bucket(name: str, recorded: dict[str, TrainerReport]) -> None:
    of_gradients = [row for row in recorded[name].first_step_calls if row.collective == "all_reduce"]
    assert of_gradients == [CallRow("all_reduce", 1, sum(SIZES))]


@pytest.mark.parametrize("name", ["ddp", "fabric", "accelerate", "ray"])
def test_a_whole_run_is_its_steps_and_what_comes_before(name: str, recorded: dict[str, TrainerReport]) -> None:
    """DDP compares the models and copies rank 0's; in the second step it agrees on new buckets, in two broadcasts."""
    of_run = {(row.collective, row.bytes): row.times for row in recorded[name].run_calls}
    per_step = {("all_reduce", row.bytes): STEPS - 1 for row in recorded[name].step_calls}
    assert {key: times for key, times in of_run.items() if key[0] == "all_reduce"} == {
        **per_step,
        ("all_reduce", sum(SIZES)): 1,
    }
    assert of_run[("broadcast", sum(SIZES))] == 1
    assert sum(of_run.values()) == 2 * (STEPS - 1) + 1 + 3 + 2


def test_deepspeed_sends_what_the_formulas_say_and_what_its_program_explains(
    recorded: dict[str, TrainerReport],
) -> None:
    formula = bytes_sent_by_stage([LENGTH], RANKS, reshard_after_forward=False)
    steps = [recorded[f"deepspeed_{stage}"].step_calls for stage in range(4)]
    large = [[row for row in rows if not (row.collective == "all_reduce" and row.bytes <= 8)] for rows in steps]
    gathered = padded(LENGTH) * 4 // RANKS
    assert sent(large[0]) == formula[0]
    assert sent(large[1]) == sent(large[2]) == formula[0] + gathered  # an all-reduce, and no reduce-scatter
    assert sent(large[3]) == formula[3]
    assert [row.collective for row in large[3]].count("reduce_scatter") == 1
    assert [PROGRAMS[f"deepspeed_{stage}"].collectives != "" for stage in range(4)] == [True] * 4


def test_gloo_makes_an_all_reduce_of_a_reduce_scatter(recorded: dict[str, TrainerReport]) -> None:
    """What is asked for and what is done differ there, and nowhere else."""
    for name, report in recorded.items():
        asked = call_rows(
            ("all_reduce" if row.collective == "reduce_scatter" else row.collective, row.bytes)
            for row in report.step_calls
            for _ in range(row.times)
        )
        assert sorted(map(str, report.gloo_calls)) == ([] if name == "ours" else sorted(map(str, asked))), name


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_are_alike_from_the_third_on(name: str, recorded: dict[str, TrainerReport]) -> None:
    """The program of stage 3 gathers the large matrix once more when its last step is over, to have the whole model."""
    assert recorded[name].steps_alike >= STEPS - (3 if name == "deepspeed_3" else 2)


# Bytes


@pytest.mark.parametrize("name", [*TORCHS_DDP, "ours", "deepspeed_0"])
def test_a_replica_keeps_everything(name: str, recorded: dict[str, TrainerReport]) -> None:
    wanted = padded_bytes_by_stage([LENGTH], RANKS, states_per_parameter=1)[0]
    assert dict(recorded[name].state_bytes) == {**wanted, "copies": 0}


def test_stages_of_deepspeed_keep_less_and_less(recorded: dict[str, TrainerReport]) -> None:
    """The optimizer has a copy of its part of the parameters, although these are float32 already."""
    kept = [recorded[f"deepspeed_{stage}"].state_bytes for stage in range(4)]
    part = padded(LENGTH) * 4 // RANKS
    assert (
        kept[1]
        == kept[2]
        == {
            "parameters": padded(LENGTH) * 4,
            "gradients": part,
            "optimizer states": part,
            "copies": part,
        }
    )
    assert set(kept[3].values()) == {LENGTH * 4 // RANKS}


def padded(length: int) -> int:
    """DeepSpeed pads to a multiple of 4: what NCCL likes is two numbers for each rank."""
    return -(-length // (2 * RANKS)) * 2 * RANKS


def test_the_model_is_what_the_numbers_are_about() -> None:
    assert LENGTH == 274_666
    assert [kind.__name__ for kind, _ in groupby(map(type, WideClassifier().look[:2]))] == ["Conv2d", "ReLU"]
    assert isinstance(WideClassifier().decide[0], nn.Linear)


# Traps


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_has_shown_what_is_said_of_it(name: str) -> None:
    trap, report = TRAPS[name], recorded_trap(name)
    text = "\n".join(report.lines)
    assert [words for words in trap.shows if words not in text] == []
    assert (report.status != 0) == trap.fails
    assert len(trap.program.splitlines()) <= 36 and trap.title.endswith("?") and trap.why
