"""The traps: which program shows each, what to look at, and why it is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PROGRAMS = Path(__file__).with_name("trap_programs")
_TORCHRUN, _ITSELF = "torchrun --nproc-per-node 2 train.py", "python train.py"


@dataclass(frozen=True)
class Trap:
    """What people lose days to: `trap_programs/NAME.py`.

    Attributes:
        name: what `TRAPS` knows it by.
        title: the question, for people.
        package: as pip names it.
        command: what a student types.
        look_at: what to look at in the output.
        why: what is behind it, and what to do.
        shows: words that stand in the output.
        fails: whether the program ends with an error.
        env: environment variables that it needs to show it.
        warnings: whether Python's warnings are shown.
        left_out: lines of the output that begin like this are left out.
    """

    name: str
    title: str
    package: str
    command: str
    look_at: str
    why: str
    shows: tuple[str, ...]
    fails: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    warnings: bool = False
    left_out: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The text of the program."""
        return (_PROGRAMS / f"{self.name}.py").read_text(encoding="utf-8")


_TRAPS = (
    Trap(
        "accelerate_launch",
        title="The command asks for two processes. How many are there?",
        package="accelerate",
        command="accelerate launch --cpu --num_processes 2 train.py",
        look_at="the number of processes, and the loss: it is that of two processes",
        why=(
            "`accelerate launch` starts several processes for GPUs; with --cpu it starts one, unless under MPI. "
            "The global batch is the same, so the result is, too. Start it by torchrun."
        ),
        shows=("processes: 1", "DistributedType.NO", "loss on the test images 0.34164"),
    ),
    Trap(
        "lightning_sampler",
        title="The loader does not shuffle. Which samples does each rank see, and what is the result?",
        package="lightning",
        command=_ITSELF,
        look_at="the sampler's class, the first samples, and the loss: it is not plain DDP's",
        why=(
            "For training, the Trainer puts its own DistributedSampler in the loader, which always shuffles. Say "
            "use_distributed_sampler=False and give the loader a sampler of yours, or leave it on, and know it."
        ),
        shows=("DistributedSampler", "loss on the test images"),
    ),
    Trap(
        "fabric_fsdp",
        title="FSDP runs on CPUs, over gloo. Does Fabric let it?",
        package="lightning",
        command=_ITSELF,
        look_at="the last line",
        why="Fabric refuses before torch is asked. With torch alone, `fully_shard` runs on CPUs: lesson 11 does it.",
        shows=("FSDP",),
        fails=True,
    ),
)
TRAPS = {trap.name: trap for trap in _TRAPS}
