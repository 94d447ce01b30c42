"""What the checks of exercise 16b are made of: node lists, steps of a job, and disks with checkpoints."""

from __future__ import annotations

import contextlib
import hashlib
import io
from pathlib import Path

import pytest
import torch

from distlib.checks.remark import CheckFailed
from distlib.checks.task import Draw
from distlib.checks.venues import simulated_only
from distlib.exercises.environments.checkpoint_disks import DIGEST, STATES, Disks, content_of, disks_case, drawn_disks
from distlib.exercises.environments.checkpoint_rules import goes_on, one_step
from distlib.exercises.environments.checks import (
    FAR,
    PORTS,
    check_expand_nodelist,
    check_rendezvous_environment,
    check_resume,
)
from distlib.exercises.environments.helpers import expand_nodelist
from distlib.exercises.environments.node_lists import drawn_list, groups_of, names_by_mistake, why_bad, written_out
from distlib.exercises.environments.slurm_steps import MEANS, SlurmStep, counts_of, mistakes
from distlib.launch.environment import read_placement
from distlib.launch.node_list import write_out
from tests.heard import tells


@pytest.mark.parametrize("seed", range(50))
def test_names_are_those_of_the_launcher(seed: int) -> None:
    text = drawn_list(Draw(seed))
    assert written_out(text) == write_out(text) == expand_nodelist(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
        ("gpu[8-10]-ib,login1", ["gpu8-ib", "gpu9-ib", "gpu10-ib", "login1"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_lists_are_written_out(text: str, names: list[str]) -> None:
    assert written_out(text) == names
    assert ",".join(groups_of(text)) == text
    assert any(made != names for made in names_by_mistake(text).values())


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ("", "a name is missing"),
        ("n[1", "no partner"),
        ("n1]", "no partner"),
        ("n[1-[2]]", "inside of brackets"),
        ("n[3-1]", "3-1 ends before it begins"),
        ("n[x]", "digits 0 to 9"),
        ("n[]", "digits 0 to 9"),
    ],
)
def test_a_bad_group_is_explained_and_refused_by_the_launcher(group: str, why: str) -> None:
    assert why in why_bad(group)
    with pytest.raises(ValueError, match="is not a list of nodes"):
        write_out(group)


# ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────

STEPS = [
    SlurmStep("node7", "1"),
    SlurmStep("node[03-05]", "2(x2),1", job_nodes="node[01-05]", job_tasks="4(x2),2(x2),1"),
    SlurmStep("gpu[8-9]-ib,cn1", "1,3,2", cyclic=True, left_behind=True),
]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_step_is_one_that_the_launcher_reads(step: SlurmStep) -> None:
    for rank in range(len(step.locations())):
        slurm, right = step.variables(rank, step.job), step.right(rank)
        slurm = {name: value for name, value in slurm.items() if name.startswith("SLURM")}
        placement = read_placement(slurm, "here")
        assert placement is not None
        found = placement.rank, placement.world_size, placement.local_rank, placement.local_size
        assert tuple(map(str, found)) == tuple(list(right.values())[:4])
        assert placement.node_name == written_out(step.nodes)[placement.node]
        assert right["MASTER_ADDR"] == written_out(step.nodes)[0]


def test_tasks_are_dealt_out_in_blocks_or_in_turn() -> None:
    assert counts_of("2(x3),1") == [2, 2, 2, 1]
    assert SlurmStep("n[1-3]", "2(x2),1").locations() == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert SlurmStep("n[1-3]", "2(x2),1", cyclic=True).locations() == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_every_variable_has_its_mistakes(step: SlurmStep) -> None:
    slurm = step.variables(0, step.job)
    assert all(mistakes(name, step, 0, slurm) for name in MEANS)


def test_two_nodes_that_meet_at_different_doors_are_noticed() -> None:
    rights = [STEPS[1].right(rank) for rank in range(5)]
    first, width = PORTS[0], FAR

    def alone(slurm: dict[str, str]) -> dict[str, str]:
        rank = int(slurm["SLURM_PROCID"])
        return {**rights[rank], "MASTER_PORT": str(first + (int(slurm["SLURM_JOB_ID"]) + rank) % width)}

    with simulated_only(), pytest.raises(CheckFailed, match="all tasks must come to one door"):
        check_rendezvous_environment(alone, steps=STEPS[1:2])


def test_an_unknown_group_must_be_named() -> None:
    def no(text: str) -> list[str]:
        if "[" in text:
            raise ValueError(f"what is {text}?")
        return text.split(",")

    with simulated_only(), pytest.raises(CheckFailed, match="does not name the group that is wrong, 'b"):
        check_expand_nodelist(no, texts=["a,b"], bad=[("a,b[x]", "b[x]")])


# ── disks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_agreed_step_is_good_on_all_ranks() -> None:
    table = Disks("of the text", ["10 20 30", "10 20-torn 30", "10 20 30-halftmp"])
    assert [table.good(rank) for rank in range(3)] == [{10, 20, 30}, {10, 30}, {10, 20}]
    assert table.agreed == 10
    assert Disks("nothing", [None, "1"]).agreed == 0


@pytest.mark.parametrize("seed", range(20))
def test_drawn_disks_have_a_step_in_common(seed: int) -> None:
    disks = drawn_disks(Draw(seed), 4)
    assert disks.agreed > 0
    assert all(len(disks.states(rank)) <= 16 for rank in range(4))
    assert disks != drawn_disks(Draw(seed + 100), 4)


@pytest.mark.parametrize("state", ["good", *STATES])
def test_files_are_in_the_state_that_they_should_be_in(state: str) -> None:
    case = disks_case(Draw(3), Disks("one", [f"7-{state}"]))
    data = bytes(case.inputs[0]["files"]["step-7.pt"].tolist())
    is_good = hashlib.sha256(data[DIGEST:]).digest() == data[:DIGEST]
    assert is_good == (state == "good")
    if state in ("good", "flipped", "checksum"):
        weight = torch.load(io.BytesIO(data[DIGEST:]))["model"]["weight"]
        assert torch.equal(weight, case.facts.values[0][7]["weight"]) == (state != "flipped")
    if state == "flipped":
        assert torch.equal(weight, case.facts.damaged[0][0])


def test_a_damaged_step_is_told_with_its_state() -> None:
    def told(state: str) -> str:
        remarks = one_step(Disks("damaged", [f"1 2-{state}", f"1 2-{state}"]), [2, 2])
        return next(remark.cause for remark in remarks if remark)

    assert tells(told("short"), "environments/checkpoint_disks.txt: short")
    assert tells(told("zeroed"), "environments/checkpoint_disks.txt: zeroed")
    assert tells(told("checksum"), "environments/checkpoint_disks.txt: checksum")


def test_a_model_from_a_damaged_file_is_noticed() -> None:
    held = disks_case(Draw(4), Disks("one", ["5 7-flipped"])).facts
    loaded = {**held.values[0][7], "weight": held.damaged[0][0]}
    remark = next(remark for remark in goes_on(0, {"held": loaded, "loaded": []}, held) if remark)
    assert remark.seen.startswith("on rank 0 the weight of the model")
    assert tells(remark.cause, "environments/checkpoint_rules.txt: damaged_loaded")


def test_a_checkpoint_is_larger_than_a_message_may_be() -> None:
    case = disks_case(Draw(1), Disks("one", ["7"]))
    assert len(content_of(7, case.facts.values[0][7])) > 512


def test_the_folder_may_be_missing_or_empty() -> None:
    def look(comm: object, folder: Path, model: object, optimizer: object) -> int:
        return int(folder.is_dir())

    with simulated_only():
        for disk, expected in ((None, 0), ("", 1)):
            with pytest.raises(CheckFailed) if expected else contextlib.nullcontext():
                check_resume(look, disks=[Disks("nothing", [disk])])
