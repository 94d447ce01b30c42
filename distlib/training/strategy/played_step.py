"""A step of a layout, played on simulated ranks: they sleep where they would compute, and send what they would send.

    rank 5 = dp 1, pp 0, tp 1      1F1B, as `pipeline` runs it: receives are posted one action ahead, sends never block
                                   tp: rings among 4 and 5, before and after each block of a layer
                                   dp: rings among 1 and 5, unit by unit: gradients in the last backward pass, or stage
                                       by stage of ZeRO as lesson 11 has it; with a pipeline, after all passes

Messages have the sizes of the real ones and no contents; a ring is played as its N−1 rounds. Whatever a rank sends or
receives waits for what it has started in the background, as everywhere in a SimulatedWorld: so gradients travel
behind computing, and not next to the messages of tp.

What nobody sends here: the norm of all gradients for clipping, and the gradients of norms and output biases that
sequence parallelism adds up over tp, some thousands of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from distlib.arguments import check_type
from distlib.communicator import Communicator, Work
from distlib.network import Cluster
from distlib.training.pipeline.plan import PipelinePlan, plan_of
from distlib.training.schedules import one_forward_one_backward
from distlib.training.schedules.actions import FORWARD, Action
from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import AXES, ParallelLayout, check_layout
from distlib.training.strategy.stage_work import (
    BYTES,
    COMPUTE,
    StageUnit,
    WorkStep,
    activation_bytes,
    stage_units,
)
from distlib.training.strategy.transformer_shape import TransformerShape
from distlib.worlds.simulated.simulator import SimulatedWorld


@dataclass(frozen=True)
class PlayedStep:
    """What a played step took.

    Attributes:
        seconds: virtual, until the last rank had finished.
        computing: by rank, the seconds in which it computed.
        sent: by axis, by rank, the bytes that it sent to ranks of its group.
        carried: by axis, (from node, to node) → bytes. Where the two are the same, they stayed inside the node.
    """

    seconds: float
    computing: Sequence[float]
    sent: dict[str, list[int]] = field(repr=False)
    carried: dict[str, dict[tuple[int, int], int]] = field(repr=False)

    @property
    def crossing(self) -> dict[str, int]:
        """By axis, the bytes that went from one node to another."""
        return {
            axis: sum(nbytes for (src, dst), nbytes in carried.items() if src != dst)
            for axis, carried in self.carried.items()
        }

    @property
    def bubble(self) -> float:
        """The part of the step in which ranks do not compute: they wait, or send what nothing hides."""
        return 1 - sum(self.computing) / (len(self.computing) * self.seconds)


def simulate_step(
    shape: TransformerShape, device: Device, cluster: Cluster, batch: int, layout: ParallelLayout
) -> PlayedStep:
    """Play a step; memory is not looked at.

    Args:
        shape: of the model.
        device: of every rank; the cluster's stragglers compute more slowly.
        cluster: with `layout.world_size` ranks.
        batch: sequences of a step, on all ranks together.
        layout: how they are laid out.

    Raises:
        TypeError, ValueError: as `check_layout`.
    """
    check_type("simulate_step", "device", device, Device, "Device(312e12, 80e9)")
    check_layout(shape, cluster, batch, layout)
    world = SimulatedWorld(cluster.world_size, cluster, record=False)
    accounts = world.run(_play, shape, device, batch, layout)
    return PlayedStep(
        world.elapsed,
        [account.computing for account in accounts],
        {axis: [account.sent[axis] for account in accounts] for axis in AXES},
        {axis: dict(sum((account.carried[axis] for account in accounts), Counter())) for axis in AXES},
    )


def _play(
    comm: Communicator, shape: TransformerShape, device: Device, batch: int, layout: ParallelLayout
) -> _SentAccount:
    """Play one rank's step. Returns what it did."""
    stage = layout.coordinate("pp", comm.rank)
    rank = _PlayedRank(comm, layout, stage_units(shape, device, batch, layout, stage))
    plan = plan_of(one_forward_one_backward(layout.pp, layout.microbatches))
    passes = _PlayedPipeline(rank, plan, stage, -(-activation_bytes(shape, batch, layout) // layout.tp))
    passes.run()
    rank.sum_tied(-(-shape.vocabulary // layout.tp) * shape.features * BYTES if shape.tied else 0)
    rank.after_passes()
    return rank.account


@dataclass
class _SentAccount:
    """What one rank did: seconds of computing, and bytes by axis."""

    computing: float = 0.0
    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(AXES, 0))
    carried: dict[str, Counter[tuple[int, int]]] = field(default_factory=lambda: {axis: Counter() for axis in AXES})


class _PlayedRank:
    """A rank, its groups, and the units of its stage."""

    def __init__(self, comm: Communicator, layout: ParallelLayout, units: Sequence[StageUnit]) -> None:
        self.comm, self.layout, self.units, self.account = comm, layout, units, _SentAccount()
        groups = {axis: comm.split(layout.group_of(axis, comm.rank)) for axis in ("dp", "tp")}
        self.groups: dict[str, Communicator] = {axis: group for axis, group in groups.items() if group is not None}

    # ── one microbatch ────────────────────────────────────────────────────────────────────────────────────────────

    def forward(self) -> None:
        """The forward pass; at stage 3 of ZeRO each unit is gathered while the one before computes."""
        self._pass([unit.forward for unit in self.units], self.units)

    def backward(self, last: bool) -> None:
        """The backward pass; `last`: of the step, in which stages 0 and 1 of ZeRO average, too."""
        backwards = self.units[::-1]
        averages = self.layout.stage >= 2 or (last and self.layout.pp == 1)
        self._pass([unit.backward for unit in backwards], backwards, averages)

    def _pass(self, steps: Sequence[Sequence[WorkStep]], units: Sequence[StageUnit], averages: bool = False) -> None:
        gathers = self.layout.stage == 3
        under_way: list[Work] = []
        gathering = self._start(units[0], 1) if gathers else None
        for number, unit in enumerate(units):
            if gathering is not None:
                gathering.wait()
                gathering = self._start(units[number + 1], 1) if number + 1 < len(units) else None
            self._play_steps(steps[number])
            if averages:
                under_way.append(self._start(unit, self._rings_of_average))
                if self.layout.stage >= 2 and len(under_way) > 1:
                    under_way.pop(0).wait()
        for work in under_way:
            work.wait()

    def _play_steps(self, steps: Sequence[WorkStep]) -> None:
        for kind, amount in steps:
            if kind == COMPUTE:
                self._compute(amount)
            else:
                self._ring(self.groups["tp"], "tp", int(amount))

    def _compute(self, seconds: float) -> None:
        before = self.comm.time()
        self.comm.sleep(seconds)
        self.account.computing += self.comm.time() - before

    # ── between the copies ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def _rings_of_average(self) -> int:
        """An all-reduce is two rings; from stage 1 on, a reduce-scatter is one."""
        return 2 if self.layout.stage == 0 else 1

    def after_passes(self) -> None:
        """What is left to send when all passes are done."""
        if self.layout.stage <= 1 and self.layout.pp > 1:
            for unit in reversed(self.units):
                self._rings(self.groups["dp"], unit.parameters * BYTES, self._rings_of_average)
        if self.layout.stage in (1, 2):
            for unit in self.units:
                self._rings(self.groups["dp"], unit.parameters * BYTES, 1)

    def _start(self, unit: StageUnit, rings: int) -> Work:
        return self.groups["dp"].start(self._rings, unit.parameters * BYTES, rings)

    def _rings(self, group: Communicator, nbytes: int, rings: int) -> None:
        for _ in range(rings):
            self._ring(group, "dp", nbytes)

    def _ring(self, group: Communicator, axis: str, nbytes: int) -> None:
        """N−1 rounds with 1/N of the bytes each: a reduce-scatter, or an all-gather."""
        size = group.world_size
        outgoing, incoming = (_contents(-(-nbytes // size)) for _ in range(2))
        following, before = (group.rank + 1) % size, (group.rank - 1) % size
        for _ in range(size - 1):
            group.exchange(outgoing, following, incoming, before)
        step = ((group.rank + 1) % size - group.rank) * self.layout.stride(axis)
        self.note(axis, self.comm.rank + step, (size - 1) * outgoing.nbytes)

    # ── between the stages ───────────────────────────────────────────────────────────────────────────────────────

    def sum_tied(self, nbytes: int) -> None:
        """The first and the last stage add up the gradients of what they share: an all-reduce between two ranks."""
        stage, last = self.layout.coordinate("pp", self.comm.rank), self.layout.pp - 1
        if stage not in (0, last) or last == 0 or nbytes == 0:
            return
        other = self.comm.rank + (last if stage == 0 else -last) * self.layout.stride("pp")
        outgoing, incoming = (_contents(-(-nbytes // 2)) for _ in range(2))
        for _ in range(2):
            self.comm.exchange(outgoing, other, incoming, other)
            self.note("pp", other, outgoing.nbytes)

    def note(self, axis: str, to: int, nbytes: int) -> None:
        """Count what goes to a rank."""
        per_node = self.comm.cluster.ranks_per_node
        self.account.sent[axis] += nbytes
        self.account.carried[axis][self.comm.rank // per_node, to // per_node] += nbytes


class _PlayedPipeline:
    """The passes of one rank in the order of its schedule, and the messages between stages."""

    def __init__(self, rank: _PlayedRank, plan: PipelinePlan, stage: int, nbytes: int) -> None:
        self._rank, self._plan, self._stage, self._nbytes = rank, plan, stage, nbytes
        self._receiving: dict[Action, Work] = {}
        self._sending: list[Work] = []
        self._posted = 0

    def run(self) -> None:
        """All passes of the step."""
        own = self._plan.rows[self._stage]
        for position, action in enumerate(own):
            self._post_up_to(position + 2)
            if action in self._receiving:
                self._receiving.pop(action).wait()
            if action.kind == FORWARD:
                self._rank.forward()
            else:
                self._rank.backward(last=position == len(own) - 1)
            self._send(action)
        for work in self._sending:
            work.wait()

    def _post_up_to(self, position: int) -> None:
        for action in self._plan.rows[self._stage][self._posted : position]:
            source = self._plan.source.get(action)
            if source is not None:
                tensor = _contents(self._nbytes)
                self._receiving[action] = self._rank.comm.irecv(tensor, self._peer(source), self._plan.tag(source))
        self._posted = max(self._posted, position)

    def _send(self, action: Action) -> None:
        target = self._plan.target.get(action)
        if target is not None:
            peer = self._peer(target)
            self._sending.append(self._rank.comm.isend(_contents(self._nbytes), peer, self._plan.tag(action)))
            self._rank.note("pp", peer, self._nbytes)

    def _peer(self, action: Action) -> int:
        return self._rank.comm.rank + (action.stage - self._stage) * self._rank.layout.stride("pp")


def _contents(nbytes: int) -> torch.Tensor:
    """A tensor of this many bytes, without contents."""
    return torch.empty(nbytes, dtype=torch.int8, device="meta")
