"""What torchrun's and Slurm's variables say of a process, and what is wrong with them."""

import re

import pytest

from distlib.launch.environment import LaunchError, Placement, read_placement

TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "GROUP_RANK": "1",
    "GROUP_WORLD_SIZE": "2",
    "MASTER_ADDR": "head",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "a7",
    "TORCHELASTIC_RESTART_COUNT": "1",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
}
SRUN = {
    "SLURM_JOB_ID": "12",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NODELIST": "node[01-02]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURMD_NODENAME": "node02",
}
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "head", "MASTER_PORT": "29500"}


def placement(variables: dict[str, str]) -> Placement:
    found = read_placement(variables, "here")
    assert found is not None
    return found


def test_torchrun() -> None:
    expected = Placement("torchrun", "a7", 3, 4, 1, 2, 1, 2, "here", ("head", 29500), True)
    assert placement(TORCHRUN) == expected
    assert str(expected) == "rank 3 on node here"


def test_srun() -> None:
    assert placement(SRUN) == Placement("srun", "12-0-0", 3, 4, 1, 2, 1, 2, "node02")


def test_a_job_that_slurm_has_started_again_is_another_run() -> None:
    assert placement(SRUN | {"SLURM_RESTART_COUNT": "2"}).run == "12-0-2"


def test_by_hand_rank_0_opens_the_store() -> None:
    found = placement(BY_HAND)
    assert (found.rank, found.world_size, found.store, found.agent_store) == (1, 2, ("head", 29500), False)
    assert (found.node, found.nodes) == (1, 2)  # nobody says that ranks share a machine


def test_torchrun_counts_where_srun_has_started_it() -> None:
    assert placement(SRUN | TORCHRUN).launcher == "torchrun"


@pytest.mark.parametrize("variables", [{}, {"RANK": ""}, {"SLURM_JOB_ID": "12", "SLURM_PROCID": "0"}])
def test_neither_has_started_it(variables: dict[str, str]) -> None:
    assert read_placement(variables, "here") is None


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"])
def test_what_torchrun_has_not_set_is_named(name: str) -> None:
    for gone in ({key: value for key, value in TORCHRUN.items() if key != name}, TORCHRUN | {name: ""}):
        with pytest.raises(LaunchError, match=f"^{name} is not set, but "):
            read_placement(gone, "here")


@pytest.mark.parametrize(
    "name", ["SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NODELIST"]
)
def test_what_srun_has_not_set_is_named(name: str) -> None:
    with pytest.raises(LaunchError, match=f"^{name} is not set, but "):
        read_placement({key: value for key, value in SRUN.items() if key != name}, "here")


def test_all_that_is_missing_is_named() -> None:
    with pytest.raises(LaunchError, match="^WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not set, but RANK: "):
        read_placement({"RANK": "0"}, "here")


@pytest.mark.parametrize(
    "change, what",
    [
        ({"RANK": "4"}, "RANK=4, but WORLD_SIZE=4: expected RANK from 0 to 3."),
        ({"RANK": "-1"}, "RANK=-1: expected a number"),
        ({"WORLD_SIZE": "four"}, "WORLD_SIZE=four: expected a number"),
        ({"WORLD_SIZE": "0"}, "RANK=3, but WORLD_SIZE=0"),
        ({"LOCAL_RANK": "2"}, "LOCAL_RANK=2, but LOCAL_WORLD_SIZE=2"),
        ({"LOCAL_WORLD_SIZE": ""}, "LOCAL_WORLD_SIZE is not set, but LOCAL_RANK: set both, or neither."),
        ({"LOCAL_RANK": "4", "LOCAL_WORLD_SIZE": "8"}, "LOCAL_RANK=4, but RANK=3"),
        ({"LOCAL_WORLD_SIZE": "8"}, "LOCAL_WORLD_SIZE=8, but WORLD_SIZE=4"),
        ({"GROUP_WORLD_SIZE": "5"}, "GROUP_WORLD_SIZE=5, but WORLD_SIZE=4"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT=0: expected a port"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000: expected a port"),
    ],
)
def test_contradictions_of_torchrun(change: dict[str, str], what: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(what)):
        read_placement(TORCHRUN | change, "here")


@pytest.mark.parametrize(
    "change, what",
    [
        ({"SLURM_PROCID": "4"}, "SLURM_PROCID=4, but SLURM_STEP_NUM_TASKS=4"),
        ({"SLURM_NODEID": "2"}, "SLURM_NODEID=2, but SLURM_STEP_NODELIST=node[01-02] names 2."),
        ({"SLURM_LOCALID": "2"}, "SLURM_LOCALID=2, but SLURM_STEP_TASKS_PER_NODE=2(x2) gives node 1 2 tasks."),
        ({"SLURM_STEP_NODELIST": "node[01-02"}, "SLURM_STEP_NODELIST: 'node[01-02' is not a list of nodes"),
        ({"SLURM_STEP_NUM_NODES": "3"}, "SLURM_STEP_NUM_NODES=3, but SLURM_STEP_NODELIST=node[01-02] names 2."),
        ({"SLURMD_NODENAME": "node01"}, "SLURMD_NODENAME=node01, but SLURM_NODEID=1 of SLURM_STEP_NODELIST="),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3)"}, "expected counts for 2 nodes"),
        ({"SLURM_STEP_TASKS_PER_NODE": "two"}, "expected counts for 2 nodes"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2,1"}, "SLURM_STEP_TASKS_PER_NODE=2,1, but SLURM_STEP_NUM_TASKS=4."),
    ],
)
def test_contradictions_of_srun(change: dict[str, str], what: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(what)):
        read_placement(SRUN | change, "here")


def test_tasks_of_unequal_nodes() -> None:
    change = {"SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_LOCALID": "0"}
    assert placement(SRUN | change).local_size == 1
