"""Steps of a Slurm job: the variables that each task of one is given, and those that torch.distributed wants.

SlurmStep("node[03-05]", "2(x2),1", job=4711)            rank    0    1    2    3    4
tasks are dealt out in blocks …                     node    03   03   04   04   05
… or cyclic=True                                    node    03   04   05   03   04
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distlib.checks.sentences import Sentences
from distlib.exercises.environments.node_lists import written_out

say = Sentences(__file__)
MEANS = {name: say(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR")}
# What os.environ says meanwhile: a step with more tasks than ours, so that no other mistake has its numbers; and an
# address that a script has left there.
ELSEWHERE = {
    "SLURM_JOB_ID": "99",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "77",
    "SLURM_LOCALID": "77",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "90",
    "SLURM_STEP_TASKS_PER_NODE": "90",
    "SLURM_STEP_NODELIST": "elsewhere",
    "SLURM_NTASKS": "90",
    "SLURM_TASKS_PER_NODE": "90",
    "SLURM_JOB_NODELIST": "elsewhere",
    "MASTER_ADDR": "elsewhere",
    "MASTER_PORT": "29500",
}
LEFT_BEHIND = {"MASTER_ADDR": "10.1.0.17", "MASTER_PORT": "29500", "RANK": "0", "WORLD_SIZE": "1"}


@dataclass(frozen=True)
class SlurmStep:
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

    def locations(self) -> list[tuple[int, int]]:
        """By rank, the number of its node, and its number among the tasks there."""
        counts = counts_of(self.tasks)
        if not self.cyclic:
            return [(node, local) for node, count in enumerate(counts) for local in range(count)]
        return [(node, local) for local in range(max(counts)) for node, count in enumerate(counts) if local < count]

    def variables(self, rank: int, job: int) -> dict[str, str]:
        """What Slurm gives a task; `job`: the number of the job."""
        values = self._of_the_job(job) | self._of_the_step() | self._of_the_task(rank)
        if self.left_behind:
            values |= LEFT_BEHIND
        return {name: str(value) for name, value in values.items() if name != self.missing}

    def _of_the_job(self, job: int) -> dict[str, Any]:
        nodes, tasks = self.job_nodes or self.nodes, self.job_tasks or self.tasks
        return {
            "PATH": "/usr/bin:/bin",
            "SLURM_SUBMIT_HOST": "login1",
            "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.250",
            "SLURM_JOB_ID": job,
            "SLURM_STEP_ID": 0,
            "SLURM_JOB_NODELIST": nodes,
            "SLURM_TASKS_PER_NODE": tasks,
            "SLURM_NTASKS": sum(counts_of(tasks)),
            "SLURM_NNODES": len(written_out(nodes)),
        }

    def _of_the_step(self) -> dict[str, Any]:
        return {
            "SLURM_STEP_NODELIST": self.nodes,
            "SLURM_STEP_NUM_NODES": len(written_out(self.nodes)),
            "SLURM_STEP_NUM_TASKS": len(self.locations()),
            "SLURM_STEP_TASKS_PER_NODE": self.tasks,
        }

    def _of_the_task(self, rank: int) -> dict[str, Any]:
        node, local = self.locations()[rank]
        return {
            "SLURM_PROCID": rank,
            "SLURM_LOCALID": local,
            "SLURM_NODEID": node,
            "SLURMD_NODENAME": written_out(self.nodes)[node],
        }

    def right(self, rank: int) -> dict[str, str]:
        """What torch.distributed wants on a rank, but for the port."""
        node, local = self.locations()[rank]
        counts = counts_of(self.tasks)
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(sum(counts)),
            "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(counts[node]),
            "MASTER_ADDR": written_out(self.nodes)[0],
        }


def counts_of(tasks: str) -> list[int]:
    """How many tasks each node has: "2(x3),1" is 2, 2, 2, 1."""
    found = []
    for part in tasks.split(","):
        count, _, times = part.rstrip(")").partition("(x")
        found += [int(count)] * int(times or 1)
    return found


FROM_SLURM = {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_STEP_NUM_TASKS", "LOCAL_RANK": "SLURM_LOCALID"}


def mistakes(name: str, step: SlurmStep, rank: int, slurm: Mapping[str, str]) -> dict[str, Any]:
    """From the words for a usual mistake to the value that it gives in one of the variables."""
    elsewhere = None if name == "LOCAL_WORLD_SIZE" else ELSEWHERE[FROM_SLURM.get(name, name)]
    own = _addresses(step, slurm) if name == "MASTER_ADDR" else _numbers(step, rank, slurm)[name]
    return {**own, say("os_environ"): elsewhere}


def _numbers(step: SlurmStep, rank: int, slurm: Mapping[str, str]) -> dict[str, dict[str, list[str]]]:
    """By variable, the same for those that are numbers."""
    counts, (node, local) = counts_of(step.tasks), step.locations()[rank]
    tasks, mine, whole = sum(counts), counts[node], counts_of(slurm["SLURM_TASKS_PER_NODE"])
    return {
        "RANK": {say("local_as_rank"): _texts(local)},
        "WORLD_SIZE": {
            say("of_the_job"): _texts(sum(whole)),
            say("nodes"): _texts(len(counts)),
            say("tasks_here"): _texts(mine),
        },
        "LOCAL_RANK": {say("rank_as_local"): _texts(rank, rank % mine)},
        "LOCAL_WORLD_SIZE": {
            say("all_tasks"): _texts(tasks),
            say("first_node"): _texts(counts[0]),
            say("of_the_job"): _texts(whole[min(node, len(whole) - 1)]),
            say("average"): _texts(tasks // len(counts)),
        },
    }


def _texts(*numbers: int) -> list[str]:
    return list(map(str, numbers))


def _addresses(step: SlurmStep, slurm: Mapping[str, str]) -> dict[str, Any]:
    """The same for the address."""
    return {
        say("left_behind"): slurm.get("MASTER_ADDR"),
        say("of_the_job"): written_out(slurm["SLURM_JOB_NODELIST"])[0],
        say("own_node"): slurm["SLURMD_NODENAME"],
        say("last_node"): written_out(step.nodes)[-1],
        say("login_node"): [slurm["SLURM_LAUNCH_NODE_IPADDR"], slurm["SLURM_SUBMIT_HOST"]],
        say("not_written_out"): [step.nodes, step.nodes.split(",")[0], step.nodes.partition("[")[0]],
        say("localhost"): ["localhost", "127.0.0.1"],
    }
