"""`run_patient`: run a broken program for real, one process per rank, and report how each rank ended.

    run_processes ──fork──► rank 0, rank 1, …   the program, as torchrun would run it; each has imported torch already
                  ──fork──► observer            returns when all have ended, or when nobody does anything any more

The processes live in a network of their own, and all are gone afterwards: see `distlib.frameworks`.
"""

from __future__ import annotations

import math
import os

import psutil
import torch

from distlib.clinic.in_rank import run_program
from distlib.clinic.observer import Observed, observe
from distlib.clinic.output_folding import fold
from distlib.clinic.patient import HANGS, Patient, changed_lines
from distlib.clinic.patient_report import (
    DIED,
    ENDED,
    RAISED,
    WAITS,
    PatientReport,
    RankEnding,
    how_it_died,
    where_it_waits,
)
from distlib.clinic.patient_table import PATIENTS
from distlib.clinic.recorded import in_place_of_py_spy, next_to_today
from distlib.clinic.tools import TOOLS, Tool
from distlib.frameworks import Outcome, Process, addresses, own_network, prepare_processes, run_processes
from distlib.living_line import waiting
from distlib.worlds.private_torch import IMPORTED_LATE

_IMPORTS = (
    *(
        "torch.distributed",
        "torch.distributed.optim",
        "torch.nn.parallel",
        "torch.utils.data",
        "distlib.clinic.in_rank",
    ),
    *IMPORTED_LATE,
)
_LIMIT = 150.0  # seconds for a patient on a machine that is very busy; then it is shown as it is
_SLOWEST = 10.0  # times as long as on a free machine
_SURELY = 15.0  # seconds for a program that is to end: torch waits, asleep, before it asks a second time for rank 0
_OBSERVER = "observer"


def prepare_clinic() -> None:
    """Begin to import torch for the patients' processes, in the background. Returns at once."""
    prepare_processes(*_IMPORTS)


def run_patient(
    name: str, tool: str | None = None, *, seconds: float = 2.0, healed: bool = False, program: str | None = None
) -> PatientReport:
    """Run a patient's program, with a tool or without.

    Args:
        name: one of PATIENTS.
        tool: one of TOOLS, or None.
        seconds: for how long all ranks that are left must have slept, all of them at once, before that is a hang; for
            a program that is to end, it is at least 15. A tool that sets a time limit sets it to twice as many. On a
            machine that is busy, that is longer.
        healed: run the program without its fault.
        program: run this one in its place, such as one that you have mended.

    Raises:
        ValueError: there is no such patient or tool, or seconds is not above 0.
        KeyboardInterrupt: the kernel was interrupted. The processes are gone.
    """
    patient, used = _find(name, tool)
    if not 0 < seconds <= _LIMIT / 3:
        raise ValueError(f"expected seconds above 0, and at most {_LIMIT / 3:g}, got {seconds!r}")
    before = program or (patient.healed if healed else patient.program)
    limit = _scaled(2 * seconds)
    after = used.edit(patient, before, limit)
    if used.is_timed:
        patience = 1.5 * limit + 1  # torch's store strikes a second later than it is told to
    else:
        patience = max(seconds, patient.seconds, 0.0 if patient.outcome == HANGS and not healed else _SURELY)
    programs = {**_ranks(patient, after, used), _OBSERVER: Process(observe, patient.ranks, patience, _LIMIT, used)}
    ends = "to end by a time limit" if used.is_timed else f"to end, or all to sleep for {patience:g} s"
    with waiting(f"{patient.ranks} ranks of {name} {ends}", 2 * _LIMIT):
        outcomes = run_processes(
            programs,
            seconds=2 * _LIMIT,
            until=[_OBSERVER],
            check=False,
            on_output=lambda name, line: None,
            imports=_IMPORTS,
        )
    if error := outcomes[_OBSERVER].error:
        raise error
    seen: Observed = outcomes[_OBSERVER].value
    endings = [_ending(rank, outcomes[_name(rank)], seen, patient, after, patience) for rank in range(patient.ranks)]
    report = PatientReport(name, tool, torch.__version__, endings, change=changed_lines(before, after))
    if not healed and program is None:
        report.recorded = in_place_of_py_spy(name, report.text) if tool else next_to_today(name)
    return report


def _find(name: str, tool: str | None) -> tuple[Patient, Tool]:
    if name not in PATIENTS:
        raise ValueError(f"there is no patient {name!r}; there are {', '.join(PATIENTS)}")
    if tool is not None and tool not in TOOLS:
        raise ValueError(f"there is no tool {tool!r}; there are {', '.join(TOOLS)}")
    return PATIENTS[name], TOOLS[tool] if tool else Tool("none", "")


def _scaled(seconds: float) -> float:
    """As many seconds on a free machine, and more on a busy one: a limit must not strike before the fault does."""
    waiting = psutil.getloadavg()[0] / (os.cpu_count() or 1)
    return float(math.ceil(seconds * min(_SLOWEST, max(1.0, waiting / 2))))


def _name(rank: int) -> str:
    return f"rank {rank}"


def _ranks(patient: Patient, program: str, tool: Tool) -> dict[str, Process]:
    """A process for each rank, with the environment that torchrun sets."""
    host, _, port = addresses(1)[0].partition(":")
    shared = {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(patient.ranks)}
    shared["GLOO_SOCKET_IFNAME"] = own_network.loopback()
    found = {}
    for rank in range(patient.ranks):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        of_tool = {name: value.format(rank=rank) for name, value in tool.env}
        process = Process(run_program, program, patient.file, rank, patient.ranks, env={**shared, **own, **of_tool})
        found[_name(rank)] = process
    return found


def _ending(rank: int, outcome: Outcome, seen: Observed, patient: Patient, program: str, patience: float) -> RankEnding:
    lines = fold(outcome.lines, patient.file)
    if rank in seen.stacks:
        how = where_it_waits(rank, seen.stacks[rank], patient.file, program, patience)
        return RankEnding(rank, WAITS, how, lines, seen.told_of(rank))
    status = outcome.exit_status or 0
    if status < 0:
        return RankEnding(rank, DIED, how_it_died(-status), lines, seen.told_of(rank))
    kind, how = (RAISED, f"ended with an exception, status {status}") if status else (ENDED, "ended, status 0")
    return RankEnding(rank, kind, how, lines, seen.told_of(rank))
