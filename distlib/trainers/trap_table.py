"""The traps: which program shows each, and why it is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from distlib.trainers.program import ITSELF, TORCHRUN

_PROGRAMS = Path(__file__).with_name("trap_programs")


@dataclass(frozen=True)
class Trap:
    """What people lose days to: `trap_programs/NAME.py`.

    Attributes:
        name: what `TRAPS` knows it by.
        title: the question, for people.
        package: as pip names it; "" if torch is enough.
        command: what a student types.
        why: what is behind it, and what to do.
        shows: words that stand in the output.
        fails: whether the program ends with an error.
        env: environment variables that it needs to show it.
        warnings: whether Python's warnings are shown.
    """

    name: str
    title: str
    package: str
    command: str
    why: str
    shows: tuple[str, ...]
    fails: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    warnings: bool = False

    @property
    def program(self) -> str:
        """The text of the program."""
        return (_PROGRAMS / f"{self.name}.py").read_text(encoding="utf-8")


_PLAIN = (
    Trap(
        "accelerate_launch",
        title="The command asks for two processes. How many are there?",
        package="accelerate",
        command="accelerate launch --cpu --num_processes 2 train.py",
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
        command=ITSELF,
        why=(
            "For training, the Trainer puts its own DistributedSampler in the loader, which always shuffles. It leaves "
            "alone a loader that already has torch's DistributedSampler: hand it one with shuffle=False."
        ),
        shows=("DistributedSampler", "loss on the test images"),
    ),
    Trap(
        "fabric_fsdp",
        title="`fully_shard` runs on CPUs, over gloo. Does Fabric's FSDP?",
        package="lightning",
        command=ITSELF,
        why=(
            'strategy="fsdp" is torch\'s older FSDP. Fabric refuses it on CPUs, before torch is asked. '
            "`fully_shard` is the newer one, and runs on CPUs: lesson 11 does it. In Lightning you call it yourself, "
            "in ModelParallelStrategy."
        ),
        shows=("FSDP",),
        fails=True,
    ),
    Trap(
        "deepspeed_clips",
        title="The configuration says nothing of clipping. Are gradients clipped?",
        package="deepspeed",
        command=TORCHRUN,
        why='The default is 1.0, the norm that gradients are cut down to. Say "gradient_clipping": 0.0 to get none.',
        shows=("gradient_clipping: 1.0", "loss on the test images 0.29100"),
    ),
    Trap(
        "deepspeed_compiler",
        title="pip has installed DeepSpeed. Does it start where no compiler is?",
        package="deepspeed",
        command=TORCHRUN,
        why=(
            "DeepSpeed compiles an extension the first time that it runs, for CPUs one that sums up in shared memory. "
            "It needs g++ and ninja, and a minute."
        ),
        shows=("deepspeed_shm_comm",),
        fails=True,
        env={"CXX": "/no/compiler", "TORCH_EXTENSIONS_DIR": "empty"},
    ),
    Trap(
        "deepspeed_warnings",
        title="Stage 3, ten steps, warnings as Python shows them. How many lines are printed?",
        package="deepspeed",
        command=TORCHRUN,
        why="DeepSpeed calls functions of torch by names that torch 2.13 wants to be rid of, in every step.",
        shows=("FutureWarning", "ten steps are over"),
        warnings=True,
    ),
    Trap(
        "ray_metrics",
        title="Each worker reports its loss. What does the result have of it?",
        package="ray",
        command=ITSELF,
        why="Ray Train keeps what is reported together with a checkpoint. An empty folder will do.",
        shows=("without_checkpoint: result.metrics is None", "with_checkpoint: result.metrics is {'loss': 0.25}"),
    ),
)


def _of_each(prefix: str, title: str, found: Mapping[str, tuple[str, tuple[str, ...]]]) -> list[Trap]:
    """One question to several frameworks. found: for each, why it is so, and words of the output."""
    packages = {"ddp": "", "fabric": "lightning"}
    starts_itself = ("fabric", "lightning", "ray")
    return [
        Trap(
            f"{prefix}_{name}",
            title=title,
            package=packages.get(name, name),
            command=ITSELF if name in starts_itself else TORCHRUN,
            why=why,
            shows=shows,
        )
        for name, (why, shows) in found.items()
    ]


_NOBODY, _DIVIDED = ("2.00 × the gradient",), ("1.00 × the gradient",)
_ACCUMULATION = _of_each(
    "accumulation",
    "Two small batches make one step. Who divides the loss by two?",
    {
        "ddp": ("DDP divides by the ranks, nobody by the small batches: divide the loss yourself.", _NOBODY),
        "fabric": ("As with plain DDP: divide the loss yourself.", _NOBODY),
        "accelerate": ("`accelerator.backward` divides the loss, in every call: do not divide it once more.", _DIVIDED),
        "deepspeed": ("`engine.backward` divides the loss: do not divide it once more.", _DIVIDED),
        "lightning": ("The Trainer divides the loss: do not divide it once more.", _DIVIDED),
    },
)
_NEW = ("rank 0, epoch 0: [12, 25, 19, 9]", "rank 0, epoch 1: [5, 1, 7, 13]")
_EPOCHS = _of_each(
    "epochs",
    "The loader shuffles. Is the order a new one in the second epoch?",
    {
        "ddp": (
            "The same: nobody has called `sampler.set_epoch`. Call it before each epoch.",
            ("rank 0, epoch 0: [12, 25, 19, 9]", "rank 0, epoch 1: [12, 25, 19, 9]"),
        ),
        "fabric": ("A new one: Fabric's loader calls `set_epoch`.", _NEW),
        "lightning": ("A new one: the Trainer calls `set_epoch`.", _NEW),
        "accelerate": (
            "A new one: Accelerate keeps the loader's own sampler, and deals out its batches.",
            ("rank 0, epoch 0: [", "rank 0, epoch 1: ["),
        ),
        "ray": (
            "The same: nobody has called `loader.sampler.set_epoch`. Call it before each epoch.",
            ("rank 0, epoch 0: [12, 25, 19, 9]", "rank 0, epoch 1: [12, 25, 19, 9]"),
        ),
    },
)
_CHECKPOINTS = _of_each(
    "checkpoint",
    "What has been saved, and does it load into a plain model?",
    {
        "ddp": ("DDP puts `module.` before each name: save `ddp.module`.", ("of_module.pt: loads",)),
        "fabric": ("Fabric saves what was wrapped, under the names it had before.", ("state.ckpt: loads",)),
        "lightning": ("The names begin with the attribute's, `model.`: take that away.", ("Missing key",)),
        "accelerate": (
            "Weights are in a file of safetensors, under the model's own names. `torch.load` hands it to that package.",
            ("load_file: loads",),
        ),
        "deepspeed": (
            "In stage 3 each rank saves its shards; `zero_to_fp32` puts them together.",
            ("zero_to_fp32: loads",),
        ),
    },
)
TRAPS = {trap.name: trap for trap in (*_PLAIN, *_ACCUMULATION, *_EPOCHS, *_CHECKPOINTS)}
