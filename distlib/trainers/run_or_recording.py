"""`report`: a program, run now, or the recording of it that comes with the package. Never invented.

recorded/fabric.json      written by `python -m distlib.trainers`, and by nothing else
"""

from __future__ import annotations

import io
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import psutil
import torch

from distlib.clinic.recorded import public_version
from distlib.frameworks import ProcessError
from distlib.trainers.environment_of_frameworks import megabytes_of, version_of
from distlib.trainers.in_each_process import LOOKED_AT, PARAMETERS
from distlib.trainers.output import shorter
from distlib.trainers.program import PROGRAMS, Program, is_there, program_of
from distlib.trainers.report_origin import keep, kept
from distlib.trainers.run_command import Ran, run_text
from distlib.trainers.same_task import RANKS, STEPS
from distlib.trainers.trainer_report import CallRow, TrainerReport, call_rows

FOLDER = Path(__file__).parent / "recorded"
_CALL_LISTS = ("step_calls", "first_step_calls", "run_calls", "gloo_calls")
_CAUSES = {  # a pattern in the output → what is the matter
    r"EADDRINUSE": "another program has the port that its processes wanted to meet at",
    r"sh: \d+: \S+: not found": "DeepSpeed compiles an extension, and there is no C++ compiler here",
    r"Ninja is required": "DeepSpeed compiles an extension, and there is no ninja here",
    r"Error building extension": "DeepSpeed compiles an extension, and the compiler has failed",
    r"No space left on device": "the disk, or the shared memory, is full",
}
_plain_ddps: dict[str, torch.Tensor] = {}  # its parameters, from the first run of this process


class TrainerError(RuntimeError):
    """A program did not come to its end. `lines`: what it had printed."""

    def __init__(self, message: str, lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.lines = list(lines)


def report(name: str) -> TrainerReport:
    """What becomes of a program: run now if its package is here, else as it was recorded.

    A run that fails does not raise: the report is the recording then, and its `note` says what went wrong.

    Raises:
        ValueError: there is no such program.
        KeyboardInterrupt: the kernel was interrupted. All processes are gone, and the recording is as it was.
    """
    program = program_of(name)
    if not is_there(name):
        missing = f"{program.package} is not installed here (make frameworks): this is the recording"
        return replace(recording(name), note=missing)
    try:
        made = run_now(name)
    except TrainerError as error:
        return replace(recording(name), note=f"{error} This is the recording", lines=error.lines)
    return replace(made, note=_other_versions(made, recording(name)))


def recording(name: str, folder: Path = FOLDER) -> TrainerReport:
    """The recording of a program.

    Raises:
        ValueError: there is no such program.
    """
    found = kept(program_of(name).name, folder)
    found |= {kind: [CallRow(**row) for row in found[kind]] for kind in _CALL_LISTS}
    return TrainerReport(**found)


def record(name: str, folder: Path = FOLDER) -> TrainerReport:
    """Run a program, and keep what became of it in the folder, in place of an older recording.

    Raises:
        TrainerError: it failed. The older recording stays.
    """
    made = run_now(name)
    keep(made, folder)
    return made


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_now(name: str) -> TrainerReport:
    """Run a program, and plain DDP after it where that was not run yet, to compare.

    Raises:
        TrainerError: it failed. One sentence.
    """
    program = program_of(name)
    ran, found = _run(program)
    if not _plain_ddps:
        _plain_ddps.update(found if name == "ddp" else _run(PROGRAMS["ddp"])[1])
    difference = max(float((found[key].float() - wanted).abs().max()) for key, wanted in _plain_ddps.items())
    counted = ran.counted
    of_rank_0 = counted[0]
    return TrainerReport(
        name=name,
        recorded=False,
        versions=versions(program.package),
        day=date.today().isoformat(),
        command=program.command,
        loss=_loss(ran.lines),
        difference=difference,
        step_calls=call_rows(of_rank_0["by_step"][LOOKED_AT]),
        first_step_calls=call_rows(of_rank_0["by_step"][0]),
        run_calls=call_rows(of_rank_0["run"]),
        gloo_calls=call_rows(of_rank_0["gloo_step"]),
        steps_alike=of_rank_0["by_step"].count(of_rank_0["by_step"][LOOKED_AT]),
        load=round(psutil.getloadavg()[0] / (os.cpu_count() or 1), 1),
        state_bytes=of_rank_0["bytes"],
        seconds_to_first_step=round(max(each["seconds_to_first_step"] for each in counted), 1),
        megabytes=round(megabytes_of(program.package), 1),
        processes=len(of_rank_0["processes"]),
        process_names=of_rank_0["processes"],
        lines=shorter(ran.lines),
    )


def _run(program: Program) -> tuple[Ran, dict[str, torch.Tensor]]:
    """A run that has come to its end, and its parameters."""
    try:
        ran = run_text(program.source, program.command)
    except ProcessError as error:
        lines = error.outcomes["run"].lines if "run" in error.outcomes else []
        raise TrainerError(f"{program.title} did not come to its end: {error}", lines) from None
    steps = [each["steps"] for each in ran.counted]
    if ran.status or steps != [STEPS] * RANKS:
        raise TrainerError(_what_went_wrong(program, ran, steps), shorter(ran.lines))
    return ran, torch.load(io.BytesIO(ran.files[PARAMETERS]))


def _what_went_wrong(program: Program, ran: Ran, steps: Sequence[int]) -> str:
    text = "\n".join(ran.lines)
    cause = next((cause for pattern, cause in _CAUSES.items() if re.search(pattern, text)), None)
    if cause is None:
        last = next((line.strip() for line in reversed(ran.lines) if re.match(r"\S*(Error|Exception)\b", line)), "")
        cause = last or f"exit status {ran.status}; steps by rank: {steps or 'none'}"
    return f"{program.title} did not come to its end: {cause}."


def versions(package: str = "") -> dict[str, str]:
    """Versions of what a program runs on, by name."""
    found = {"Python": platform.python_version(), "torch": public_version()}
    return found | ({package: version_of(package) or "?"} if package else {})


def _loss(lines: Sequence[str]) -> float:
    found = re.findall(r"loss on the test images ([\d.]+)", "\n".join(lines))
    return float(found[0])


def _other_versions(made: TrainerReport, recorded: TrainerReport) -> str:
    """What differs from the versions of the recording, in a sentence; "" if nothing does."""
    differing = _differing(made.versions, recorded.versions)
    return f"The recording is of {', '.join(differing)}: numbers may differ" if differing else ""


def _differing(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    of_python = {"Python"}  # which changes no number here
    return [f"{name} {there[name]}" for name in there if name not in of_python and there[name] != here.get(name)]
