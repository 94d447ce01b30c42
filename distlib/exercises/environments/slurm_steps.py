"""Steps of a Slurm job: the variables that each task of one is given, and those that torch.distributed wants.

Step("node[03-05]", "2(x2),1", job=4711)            rank    0    1    2    3    4
tasks are dealt out in blocks …                     node    03   03   04   04   05
… or cyclic=True                                    node    03   04   05   03   04
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distlib.exercises.environments.node_lists import written_out

ELSEWHERE = {  # what os.environ says meanwhile: a step of one task, and an address that a script has left there
    "SLURM_JOB_ID": "99", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "1", "SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_STEP_NODELIST": "elsewhere",
    "SLURM_NTASKS": "1", "SLURM_TASKS_PER_NODE": "1", "SLURM_JOB_NODELIST": "elsewhere",
    "MASTER_ADDR": "elsewhere", "MASTER_PORT": "29500",
}  # fmt: skip
LEFT_BEHIND = {"MASTER_ADDR": "10.1.0.17", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}


@dataclass(frozen=True)
class Step:
    """A step, and the job that it belongs to.

    Attributes:
        nodes, tasks: of the step, as Slurm writes them.
        job: its number.
        cyclic: whether neighboring ranks are on different nodes.
        job_nodes, job_tasks: of the whole job; empty: the same.
        left_behind: whether the variables hold an address that an earlier script has set.
        missing: a variable that is not there; empty: all are.
    """

    nodes: str
    tasks: str
    job: int = 4711
    cyclic: bool = False
    job_nodes: str = ""
    job_tasks: str = ""
    left_behind: bool = False
    missing: str = ""

    def places(self) -> list[tuple[int, int]]:
        """By rank, the number of its node, and its number among the tasks there."""
        counts = counts_of(self.tasks)
        if not self.cyclic:
            return [(node, local) for node, count in enumerate(counts) for local in range(count)]
        return [(node, local) for local in range(max(counts)) for node, count in enumerate(counts) if local < count]

    def variables(self, rank: int, job: int) -> dict[str, str]:
        """What Slurm gives a task; `job`: the number of the job."""
        node, local = self.places()[rank]
        names, tasks = written_out(self.nodes), len(self.places())
        job_nodes, job_tasks = self.job_nodes or self.nodes, self.job_tasks or self.tasks
        found = {
            "PATH": "/usr/bin:/bin", "SLURM_SUBMIT_HOST": "login1", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.250",
            "SLURM_JOB_ID": job, "SLURM_STEP_ID": 0, "SLURM_JOB_NODELIST": job_nodes, "SLURM_TASKS_PER_NODE": job_tasks,
            "SLURM_NTASKS": sum(counts_of(job_tasks)), "SLURM_NNODES": len(written_out(job_nodes)),
            "SLURM_STEP_NODELIST": self.nodes, "SLURM_STEP_NUM_NODES": len(names), "SLURM_STEP_NUM_TASKS": tasks,
            "SLURM_STEP_TASKS_PER_NODE": self.tasks, "SLURM_PROCID": rank, "SLURM_LOCALID": local,
            "SLURM_NODEID": node, "SLURMD_NODENAME": names[node], **(LEFT_BEHIND if self.left_behind else {}),
        }  # fmt: skip
        return {name: str(value) for name, value in found.items() if name != self.missing}

    def right(self, rank: int) -> dict[str, str]:
        """What torch.distributed wants on a rank, but for the port."""
        node, local = self.places()[rank]
        counts = counts_of(self.tasks)
        return {
            "RANK": str(rank), "WORLD_SIZE": str(sum(counts)), "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(counts[node]), "MASTER_ADDR": written_out(self.nodes)[0],
        }  # fmt: skip


def counts_of(tasks: str) -> list[int]:
    """How many tasks each node has: "2(x3),1" is 2, 2, 2, 1."""
    found = []
    for part in tasks.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        found += [int(count)] * int(times or 1)
    return found


MEANS = {
    "RANK": "the rank is SLURM_PROCID, as Slurm says it. Node and local number don't give it: Slurm may deal tasks out "
    "in blocks or in turn.",
    "WORLD_SIZE": "it is the number of tasks of the step, SLURM_STEP_NUM_TASKS, on all nodes together.",
    "LOCAL_RANK": "it is SLURM_LOCALID: the number among the tasks of the same node.",
    "LOCAL_WORLD_SIZE": "it is the number of tasks on this node: write SLURM_STEP_TASKS_PER_NODE out, 2(x3),1 is "
    "2, 2, 2, 1, and take entry SLURM_NODEID.",
    "MASTER_ADDR": "it is the first node of the step, where task 0 runs, the same for all tasks: the first name in "
    "SLURM_STEP_NODELIST.",
}
WHOLE = "that is the whole job's. The step may have only a part of it: variables with STEP in their names describe it."
OS_ENVIRON = "this comes from os.environ, the variables of this process. Read slurm, the argument, alone."
RANK_AS_LOCAL = (
    "this is the rank among all tasks, or its remainder. A node with 2 GPUs has no GPU 3, and tasks may be dealt out "
    "in turn: SLURM_LOCALID says it."
)
FROM_SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_STEP_NUM_TASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def mistakes(name: str, step: Step, rank: int, slurm: Mapping[str, str]) -> dict[str, Any]:
    """From the words for a usual mistake to the value that it gives in one of the variables."""
    elsewhere = None if name == "LOCAL_WORLD_SIZE" else ELSEWHERE[FROM_SLURM.get(name, name)]
    if name == "MASTER_ADDR":
        return {**_addresses(step, slurm), OS_ENVIRON: elsewhere}
    counts, (node, local) = counts_of(step.tasks), step.places()[rank]
    tasks, mine, whole = sum(counts), counts[node], counts_of(slurm["SLURM_TASKS_PER_NODE"])
    numbers: dict[str, dict[str, Any]] = {
        "RANK": {"this is the local rank, which is 0 on every node. SLURM_PROCID counts all tasks.": local},
        "WORLD_SIZE": {
            WHOLE: sum(whole),
            "that is the number of nodes.": len(counts),
            "that is the number of tasks on this node.": mine,
        },
        "LOCAL_RANK": {RANK_AS_LOCAL: [rank, rank % mine]},
        "LOCAL_WORLD_SIZE": {
            "that is the number of all tasks.": tasks,
            "that is the first node's. Nodes may have different numbers of tasks: take entry SLURM_NODEID.": counts[0],
            WHOLE: whole[min(node, len(whole) - 1)],
            "that is an average, but nodes may have different numbers of tasks. SLURM_STEP_TASKS_PER_NODE has "
            "them.": tasks // len(counts),
        },
    }
    return {**{words: _texts(number) for words, number in numbers[name].items()}, OS_ENVIRON: elsewhere}


def _texts(numbers: int | list[int]) -> list[str]:
    return list(map(str, numbers if isinstance(numbers, list) else [numbers]))


def _addresses(step: Step, slurm: Mapping[str, str]) -> dict[str, Any]:
    return {
        "this is an address that was there before. The next allocation has other nodes: make it from the node list "
        "every time.": slurm.get("MASTER_ADDR"),
        WHOLE: written_out(slurm["SLURM_JOB_NODELIST"])[0],
        "every task names its own node here, so nobody meets.": slurm["SLURMD_NODENAME"],
        "this is the last node. Task 0 runs on the first one.": written_out(step.nodes)[-1],
        "that is where srun was called, perhaps a login node. Task 0 runs on the first node of the step.": [
            slurm["SLURM_LAUNCH_NODE_IPADDR"],
            slurm["SLURM_SUBMIT_HOST"],
        ],
        "the list is not written out. expand_nodelist(…)[0] is the first name.": [
            *(step.nodes, step.nodes.split(",")[0]),
            step.nodes.partition("[")[0],
        ],
        "rank 0 may be on another machine, and this one works on a single machine only.": ["localhost", "127.0.0.1"],
    }
