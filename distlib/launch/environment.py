"""Who a process is among all that were started with it, as the program that started it says in variables.

    torchrun        RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 GROUP_RANK=1 MASTER_ADDR=… MASTER_PORT=… …
    srun            SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_NODELIST=n[1-2] …
                    ────────────► Placement(rank=3, world_size=4, local_rank=1, node=1, node_name="n2", …)

torchrun's are described in the docstring of torch.distributed.run, "Environment Variables", Slurm's in srun(1), "OUTPUT
ENVIRONMENT VARIABLES". Where srun has started torchrun both are there, and torchrun's count. What is missing, or can't
all be true, is an error here, and not ranks that wait for each other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from distlib.launch.node_list import write_out

Variables = Mapping[str, str]
_TASKS = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")
_HIGHEST_PORT = 65_535


class LaunchError(Exception):
    """The ranks can't start, or can't find each other: why, and what to do."""


@dataclass(frozen=True)
class Placement:
    """Where a process stands.

    Attributes:
        launcher: "torchrun" or "srun".
        run: what all processes of one start have in common. A job that Slurm starts again has another one. torchrun's
            restarts have the same: each node counts its own, and a node that comes late has counted none.
        rank, world_size: as in `Communicator`.
        local_rank, local_size: the same among the processes of its node.
        node, nodes: the number of its node, from 0, and how many there are.
        node_name: the name of its node.
        store: host and port of the store that torchrun has opened; None under srun.
        agent_store: whether that store is torchrun's own. If not, rank 0 is to open it.
    """

    launcher: str
    run: str
    rank: int
    world_size: int
    local_rank: int
    local_size: int
    node: int
    nodes: int
    node_name: str
    store: tuple[str, int] | None = None
    agent_store: bool = False

    def __str__(self) -> str:
        return f"rank {self.rank} on node {self.node_name}"

    @property
    def one_machine(self) -> bool:
        """Whether all ranks are on this machine, and no other one needs to reach them."""
        return self.nodes == 1 or (self.store is not None and _is_loopback(self.store[0]))

    @property
    def meeting(self) -> str:
        """A name for files, which no other start of this user has at the same time."""
        if self.store is None:
            return self.run
        machine = self.node_name if self.one_machine else ""
        return hashlib.sha256(repr((self.run, self.store, machine)).encode()).hexdigest()[:16]


def _is_loopback(host: str) -> bool:
    return host.startswith("127.") or host in ("localhost", "::1")


def read_placement(variables: Variables, host: str) -> Placement | None:
    """What the variables of a process say; None if neither torchrun nor srun has started it.

    Args:
        variables: such as os.environ. One that is empty counts as missing.
        host: the name of this machine.

    Raises:
        LaunchError: a variable is missing, is not what it should be, or contradicts another one.
    """
    variables = {name: value for name, value in variables.items() if value}
    if {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & variables.keys():
        return _of_torchrun(variables, host)
    if "SLURM_STEP_ID" in variables and "SLURM_PROCID" in variables:
        return _of_srun(variables, host)
    return None


# ── torchrun ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_torchrun(variables: Variables, host: str) -> Placement:
    """Also for processes that were given RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT by hand."""
    _need(variables, ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"), "torchrun sets them all")
    rank, world_size = _number_and_count(variables, "RANK", "WORLD_SIZE")
    local_rank, local_size = _number_and_count(variables, "LOCAL_RANK", "LOCAL_WORLD_SIZE", default=(0, 1))
    node, nodes = _number_and_count(variables, "GROUP_RANK", "GROUP_WORLD_SIZE", default=(rank, world_size))
    _at_most(variables, "LOCAL_RANK", local_rank, "RANK", rank)
    _at_most(variables, "LOCAL_WORLD_SIZE", local_size, "WORLD_SIZE", world_size)
    _at_most(variables, "GROUP_WORLD_SIZE", nodes, "WORLD_SIZE", world_size)
    port = _number(variables, "MASTER_PORT")
    if not 1 <= port <= _HIGHEST_PORT:
        raise LaunchError(f"MASTER_PORT={port}: expected a port, from 1 to {_HIGHEST_PORT}.")
    return Placement(
        launcher="torchrun",
        run=variables.get("TORCHELASTIC_RUN_ID", "by-hand"),
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_size=local_size,
        node=node,
        nodes=nodes,
        node_name=host,
        store=(variables["MASTER_ADDR"], port),
        agent_store=variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )


# ── srun ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _of_srun(variables: Variables, host: str) -> Placement:
    names = ("SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NODELIST")
    _need(variables, names, "srun sets them all; keep what begins with SLURM_")
    nodes = _nodes(variables)
    rank, world_size = _number_and_count(variables, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
    node = _number(variables, "SLURM_NODEID")
    if node >= len(nodes):
        raise LaunchError(f"SLURM_NODEID={node}, but {_shown(variables, 'SLURM_STEP_NODELIST')} names {len(nodes)}.")
    local_rank = _number(variables, "SLURM_LOCALID")
    local_size = _tasks(variables, len(nodes), world_size)[node]
    if local_rank >= local_size:
        shown = _shown(variables, "SLURM_STEP_TASKS_PER_NODE")
        raise LaunchError(f"SLURM_LOCALID={local_rank}, but {shown} gives node {node} {local_size} tasks.")
    return Placement(
        launcher="srun",
        run="-".join(variables.get(f"SLURM_{name}", "0") for name in ("JOB_ID", "STEP_ID", "RESTART_COUNT")),
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_size=local_size,
        node=node,
        nodes=len(nodes),
        node_name=_own_name(variables, nodes[node]),
    )


def _nodes(variables: Variables) -> list[str]:
    """The names of the step's nodes, as many as Slurm says there are."""
    try:
        nodes = write_out(variables["SLURM_STEP_NODELIST"])
    except ValueError as error:
        raise LaunchError(f"SLURM_STEP_NODELIST: {error}") from None
    count = _number(variables, "SLURM_STEP_NUM_NODES", default=len(nodes))
    if count != len(nodes):
        shown = _shown(variables, "SLURM_STEP_NODELIST")
        raise LaunchError(f"SLURM_STEP_NUM_NODES={count}, but {shown} names {len(nodes)}. {_ONE_STEP}")
    return nodes


def _own_name(variables: Variables, listed: str) -> str:
    own = variables.get("SLURMD_NODENAME", listed)
    if own != listed:
        listed_at = f"SLURM_NODEID={variables['SLURM_NODEID']} of {_shown(variables, 'SLURM_STEP_NODELIST')}"
        raise LaunchError(f"SLURMD_NODENAME={own}, but {listed_at} is {listed}. {_ONE_STEP}")
    return own


def _tasks(variables: Variables, nodes: int, world_size: int) -> list[int]:
    """How many tasks each node has: "2(x3),1" is 2, 2, 2, 1. Where Slurm doesn't say, they are spread evenly."""
    text = variables.get("SLURM_STEP_TASKS_PER_NODE", f"{-(-world_size // nodes)}(x{nodes})")
    found = [_TASKS.fullmatch(part) for part in text.split(",")]
    counts = [int(match[1]) for match in found if match for _ in range(int(match[2] or 1))]
    if None in found or len(counts) != nodes:
        raise LaunchError(f"SLURM_STEP_TASKS_PER_NODE={text}: expected counts for {nodes} nodes, such as 2(x3),1.")
    if "SLURM_STEP_TASKS_PER_NODE" in variables and sum(counts) != world_size:
        raise LaunchError(f"SLURM_STEP_TASKS_PER_NODE={text}, but SLURM_STEP_NUM_TASKS={world_size}. {_ONE_STEP}")
    return counts


_ONE_STEP = "They are of different steps: was one set by hand, or left over from another srun?"


# ── variables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _need(variables: Variables, names: tuple[str, ...], advice: str) -> None:
    missing = [name for name in names if name not in variables]
    if missing:
        there = [name for name in names if name in variables] or ["another one"]
        verb = "is" if len(missing) == 1 else "are"
        raise LaunchError(f"{_listed(missing)} {verb} not set, but {_listed(there)}: {advice}.")


def _number_and_count(
    variables: Variables, name: str, of: str, default: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Which one of how many: two variables, of which the first is smaller than the second."""
    if default is not None and name not in variables and of not in variables:
        return default
    _need(variables, (name, of), "set both, or neither")
    number, count = _number(variables, name), _number(variables, of)
    if number >= count:
        raise LaunchError(f"{name}={number}, but {of}={count}: expected {name} from 0 to {max(0, count - 1)}.")
    return number, count


def _number(variables: Variables, name: str, default: int | None = None) -> int:
    text = variables[name] if default is None else variables.get(name, str(default))
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise LaunchError(f"{name}={text}: expected a number of at least 0.")
    return int(text)


def _at_most(variables: Variables, name: str, value: int, other: str, most: int) -> None:
    if name in variables and value > most:
        raise LaunchError(f"{name}={value}, but {other}={most}: expected {name} to be at most that.")


def _shown(variables: Variables, name: str) -> str:
    return f"{name}={variables[name]}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
