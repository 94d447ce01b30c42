"""`Program`: one training as a student would write it for one framework, and `changed`, what that changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from distlib.clinic.patient import changed_lines
from distlib.trainers.environment_of_frameworks import has

FOLDER = Path(__file__).with_name("programs")
TORCHRUN, ITSELF = "torchrun --nproc-per-node 2 train.py", "python train.py"


@dataclass(frozen=True)
class Program:
    """One training, written for one framework: `programs/NAME.py`.

    Attributes:
        name: what `PROGRAMS` knows it by.
        title: for people.
        package: as pip names it; "" if the course's environment is enough.
        starts_processes: who does.
        command: what a student types.
        collectives: what differs from the formulas of lessons 05 and 11, and why; "" if nothing does.
        memory: the same, of what each rank keeps.
        stage: of ZeRO, None outside of DeepSpeed.
    """

    name: str
    title: str
    package: str
    starts_processes: str
    command: str
    collectives: str = ""
    memory: str = ""
    stage: int | None = None

    @property
    def source(self) -> str:
        """The text of the program."""
        text = (FOLDER / f"{re.sub(r'_[0-9]$', '', self.name)}.py").read_text(encoding="utf-8")
        return text.replace('"stage": 0', f'"stage": {self.stage}')


_OF_TRAINER = "One more broadcast in each step: rank 0 tells the others whether the job is to end (SIGTERM)."
_STAGE_0 = "One all-reduce for all gradients, after the backward pass: a bucket holds 500 million numbers."
_STAGES_1_AND_2 = (
    "The average is an all-reduce, where lesson 11 has a reduce-scatter, which is half of that: the setting "
    "use_multi_rank_bucket_allreduce is on. Then the new parameters are gathered; the 4 bytes are for the norm."
)
_STAGE_3 = (
    "The bytes are those of a stage 3 that gathers once in a step: the large matrix stays from the forward pass to the "
    "backward pass. Parameters of at most 100,000 numbers stay whole and are gathered after the step, one by one. "
    "The 8 bytes are for the norm."
)
_COPIES = (
    "The optimizer has a copy of its part of the parameters, for models that are not float32; this one is, already."
)
_PARTS = (
    f"{_COPIES} When the step begins, stage 1 has let go of the gradients that are not its own, too; lesson 11 counts "
    "before that."
)
_PROGRAMS = (
    Program("ddp", "plain torch", "", "torchrun", TORCHRUN),
    Program("ours", "the course's DDP", "", "the World in the script", ITSELF),
    Program("fabric", "Lightning Fabric", "lightning", "Fabric: the script starts itself once more", ITSELF),
    Program(
        "lightning",
        "Lightning Trainer",
        "lightning",
        "the Trainer: the script starts itself once more",
        ITSELF,
        collectives=_OF_TRAINER,
    ),
    Program("accelerate", "Accelerate", "accelerate", "torchrun", TORCHRUN),
    Program("deepspeed_0", "DeepSpeed, stage 0", "deepspeed", "torchrun", TORCHRUN, collectives=_STAGE_0, stage=0),
    Program(
        "deepspeed_1",
        "DeepSpeed, ZeRO 1",
        "deepspeed",
        "torchrun",
        TORCHRUN,
        collectives=_STAGES_1_AND_2,
        memory=_PARTS,
        stage=1,
    ),
    Program(
        "deepspeed_2",
        "DeepSpeed, ZeRO 2",
        "deepspeed",
        "torchrun",
        TORCHRUN,
        collectives=_STAGES_1_AND_2,
        memory=_PARTS,
        stage=2,
    ),
    Program(
        "deepspeed_3",
        "DeepSpeed, ZeRO 3",
        "deepspeed",
        "torchrun",
        TORCHRUN,
        collectives=_STAGE_3,
        memory=_COPIES,
        stage=3,
    ),
    Program("ray", "Ray Train", "ray", "Ray: workers of its cluster", ITSELF),
)
PROGRAMS = {program.name: program for program in _PROGRAMS}


def program_of(name: str) -> Program:
    """A program by its name.

    Raises:
        ValueError: there is none of that name.
    """
    if name not in PROGRAMS:
        raise ValueError(f"there is no program {name!r}; there are {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


def changed(name: str) -> str:
    """What a program changes of plain DDP's: lines that go, marked -, and that come, marked +. Without first lines."""
    before, after = (program_of(each).source.partition("\n")[2] for each in ("ddp", name))
    return changed_lines(before, after)


def is_there(name: str) -> bool:
    """Whether a program can run here: whether its package is in the frameworks' environment."""
    return has(program_of(name).package)
