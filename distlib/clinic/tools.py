"""The tools of torch and Python that look into a program that hangs or dies.

A tool is an environment variable, or a line or two in the program, or somebody who looks from outside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from distlib.clinic.patient import Patient

Edit = Callable[[Patient, str, float], str]
TIMEDELTA = "from datetime import timedelta"
_JOIN = re.compile(r'(init_process_group\("gloo")(, timeout=timedelta\(.*?\))?')


def keep(patient: Patient, program: str, seconds: float) -> str:
    """The program as it is."""
    return program


def limit_waits(patient: Patient, program: str, seconds: float) -> str:
    """With a timeout in `init_process_group`."""
    return _with_timedelta(_JOIN.sub(rf"\1, timeout=timedelta(seconds={seconds:g})", program))


def meet_before(patient: Patient, program: str, seconds: float) -> str:
    """With a `monitored_barrier` before the line that is suspected."""
    lines = []
    for line in program.splitlines():
        if patient.probe and patient.probe in line:
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}dist.monitored_barrier(timeout=timedelta(seconds={seconds:g}))")
        lines.append(line)
    return _with_timedelta("\n".join(lines) + "\n")


def dump_later(patient: Patient, program: str, seconds: float) -> str:
    """With faulthandler's alarm clock, which writes all Python stacks."""
    wake = f"import faulthandler\n\nfaulthandler.dump_traceback_later({seconds:g})\n"
    return program.replace("\nimport ", f"\n{wake}import ", 1)


def _with_timedelta(program: str) -> str:
    return program if TIMEDELTA in program else program.replace("\nimport ", f"\n{TIMEDELTA}\n\nimport ", 1)


@dataclass(frozen=True)
class Tool:
    """One tool.

    Attributes:
        name: what it is called here.
        tells: what it says, and when, in a sentence.
        env: environment variables that switch it on.
        edit: what it changes in the program.
        is_timed: something happens in the program after the seconds that `edit` gets.
        records: the flight recorder is read when all sleep.
        looks_in: py-spy looks at the ranks that are left.
    """

    name: str
    tells: str
    env: tuple[tuple[str, str], ...] = ()
    edit: Edit = keep
    is_timed: bool = False
    records: bool = False
    looks_in: bool = False


_ALL = (
    Tool(
        "timeout",
        "ends a wait after seconds, not after 30 minutes, and names the line",
        edit=limit_waits,
        is_timed=True,
    ),
    Tool("monitored_barrier", "rank 0 names the first rank that does not come", edit=meet_before, is_timed=True),
    Tool("INFO", "DDP names parameters", env=(("TORCH_DISTRIBUTED_DEBUG", "INFO"),)),
    Tool("DETAIL", "compares each collective call over the ranks", env=(("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),)),
    Tool("py-spy", "shows the Python stack of a process that runs, from outside", looks_in=True),
    Tool("faulthandler", "writes every rank's stack after seconds", edit=dump_later, is_timed=True),
    Tool("flight recorder", "lists the calls of every rank", env=(("TORCH_FR_BUFFER_SIZE", "100"),), records=True),
    Tool(
        "error file",
        "keeps the exception of each rank, and when it came",
        env=(("TORCHELASTIC_ERROR_FILE", "error-{rank}.json"),),
    ),
)
TOOLS: dict[str, Tool] = {tool.name: tool for tool in _ALL}
