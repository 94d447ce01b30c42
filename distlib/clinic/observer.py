"""One more process, next to a patient's ranks: it returns when all have ended, or when none does anything any more.

A rank that hangs sleeps: it uses no processor time, however long one looks. A rank that a busy machine does not let
run is not asleep, but waits for a processor. So a slow machine is not taken for a hang: what counts is a while in which
every rank that is left slept the whole time. See psutil's `status` and `cpu_times`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from distlib.clinic.output_folding import shorter
from distlib.clinic.tools import Tool

ASK_FOR_STACK = signal.SIGUSR1
CALLS_WANTED = "calls-wanted"
NO_DUMP = "(py-spy"  # how a sentence begins that says why there is no dump
LOOK_EVERY = 0.1  # seconds
_A_LITTLE = 0.02  # seconds of the processor from one look to the next: two ticks of the clock
_ANSWER_PATIENCE = 10.0  # seconds for what is asked of a rank that sleeps


@dataclass
class Observed:
    """What was seen of the ranks that did not end.

    Attributes:
        asleep: for how many seconds all of them had been asleep; 0 if the time was up before.
        stacks: their Python stacks, as faulthandler writes them, by rank; "" where none came.
        calls: what their flight recorders have, as JSON, by rank, if that was asked for.
        spied: what py-spy has printed, by rank, if that was asked for.
        errors: the error files, as JSON, by rank.
    """

    asleep: float = 0.0
    stacks: dict[int, str] = field(default_factory=dict)
    calls: dict[int, str] = field(default_factory=dict)
    spied: dict[int, str] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)

    def told_of(self, rank: int) -> list[str]:
        """Lines about one rank: its calls, its stack, its error file."""
        lines = _calls(self.calls[rank]) if rank in self.calls else []
        lines += _main_thread(self.spied[rank]) if rank in self.spied else []
        return lines + (_error(self.errors[rank]) if rank in self.errors else [])


def observe(ranks: int, patience: float, limit: float, tool: Tool) -> Observed:
    """Wait until all have ended, or nobody does anything any more; then look at those that are left.

    Args:
        ranks: how many there are. They write their process numbers to the folder for temporary files.
        patience: for how many seconds all must be asleep.
        limit: after how many seconds to look in any case.
        tool: what to ask for besides stacks.
    """
    folder = Path(tempfile.gettempdir())
    asleep = _wait_for_the_end(folder, ranks, patience, time.monotonic() + limit)
    left = _running(folder, ranks)
    seen = Observed(asleep=asleep)
    for rank, process in left.items():
        try:
            process.send_signal(ASK_FOR_STACK)
        except psutil.NoSuchProcess:
            continue  # it has ended meanwhile
        seen.stacks[rank] = _read_when_there(folder / f"{rank}.stack", "in <module>\n")
    if tool.records:
        (folder / CALLS_WANTED).touch()
        seen.calls = {rank: _read_when_there(folder / f"{rank}.calls", "]") for rank in left}
    if tool.looks_in:
        seen.spied = {rank: spy(process.pid) for rank, process in left.items()}
    for rank in range(ranks):
        path = folder / f"error-{rank}.json"
        if path.exists():
            seen.errors[rank] = path.read_text()
    return seen


def _wait_for_the_end(folder: Path, ranks: int, patience: float, give_up: float) -> float:
    """Returns for how many seconds all that are left have been asleep: 0 if none is left, or the time is up.

    Seconds are looks: where this process itself is kept waiting, it has not seen that they slept.
    """
    used: dict[int, float] = {}
    asleep = 0.0
    while time.monotonic() < give_up:
        time.sleep(LOOK_EVERY)
        running = _running(folder, ranks)
        began = len(list(folder.glob("*.pid"))) == ranks
        if began and not running:
            return 0.0
        now = {rank: _processor_time(process) for rank, process in running.items()}
        is_asleep = began and now.keys() == used.keys() and all(now[r] - used[r] < _A_LITTLE for r in now)
        asleep = asleep + LOOK_EVERY if is_asleep else 0.0
        if asleep >= patience:
            return asleep
        used = now
    return 0.0


def _running(folder: Path, ranks: int) -> dict[int, psutil.Process]:
    """The ranks that have begun and not ended."""
    found = {}
    for rank in range(ranks):
        try:
            process = psutil.Process(int((folder / f"{rank}.pid").read_text()))
            if process.status() != psutil.STATUS_ZOMBIE:
                found[rank] = process
        except (OSError, ValueError, psutil.Error):
            continue
    return found


def _processor_time(process: psutil.Process) -> float:
    """Seconds that it has used, with all that it has started; without end if one of them would like to run."""
    total = 0.0
    try:
        for each in [process, *process.children(recursive=True)]:
            if each.status() not in (psutil.STATUS_SLEEPING, psutil.STATUS_IDLE, psutil.STATUS_ZOMBIE):
                return float("inf")
            times = each.cpu_times()
            total += times.user + times.system
    except psutil.Error:
        return float("inf")
    return total


def _read_when_there(path: Path, end: str) -> str:
    give_up = time.monotonic() + _ANSWER_PATIENCE
    while time.monotonic() < give_up:
        text = path.read_text() if path.exists() else ""
        if text.endswith(end):
            return text
        time.sleep(LOOK_EVERY)
    return ""


def spy(pid: int) -> str:
    """What py-spy prints about a process; in parentheses, why it prints nothing."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    command = shutil.which("py-spy", path=path)
    if command is None:
        return f"{NO_DUMP} is not installed here: pip install py-spy)"
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_FORCE")} | {"NO_COLOR": "1"}
    try:
        look = [command, "dump", "--pid", str(pid)]
        done = subprocess.run(look, capture_output=True, text=True, env=plain, timeout=_ANSWER_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"{NO_DUMP} has not answered)"
    return done.stdout if done.returncode == 0 else f"{NO_DUMP} may not look at it: {done.stderr.strip()})"


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _calls(entries: str) -> list[str]:
    """One line per call of the flight recorder. It calls a call retired when it is over."""
    if not entries:
        return ["(its flight recorder can't be read: it waits with Python's lock held)"]
    calls = [
        f"call {number}: {entry['profiling_name']} {entry['input_sizes']}, group {entry['process_group'][0]}, "
        f"{'over' if entry['retired'] else 'NOT OVER'}"
        for number, entry in enumerate(json.loads(entries), 1)
    ]
    return calls or ["(its flight recorder is empty: this version of torch may not keep gloo's calls)"]


def _main_thread(text: str) -> list[str]:
    """What py-spy says of the main thread, without what stands around the program here."""
    thread = text.partition("Thread ")[2].partition("\nThread ")[0] if "Thread " in text else text
    ours = ("distlib/", "(<string>:")
    lines = [line.strip() for line in thread.splitlines()[1:] or [text]]
    return [line for line in lines if line and not any(each in line for each in ours)]


def _error(text: str) -> list[str]:
    """An error file: when, and what."""
    message = json.loads(text)["message"]
    return [f"error file: at {message['extraInfo']['timestamp']}, {shorter(message['message'])}"]
