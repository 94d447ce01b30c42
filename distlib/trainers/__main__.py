"""`python -m distlib.trainers`: run all programs and traps that can run here, print what became of them, record it.

python -m distlib.trainers fabric ray      only these
python -m distlib.trainers --prepare       none: compile DeepSpeed's extension, which its first run would do
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from distlib.trainers import environment_of_frameworks
from distlib.trainers.program import PROGRAMS, is_there
from distlib.trainers.run_or_recording import FOLDER, TrainerError, record, report
from distlib.trainers.trap import record_trap, trap_is_there
from distlib.trainers.trap_table import TRAPS


def main(names: Sequence[str]) -> int:
    """Returns the exit status: 1 if something has failed."""
    failed = environment_of_frameworks.faults()
    if names == ["--prepare"]:
        return _prepare(failed)
    print("\n".join(failed), end="\n" if failed else "")
    for name in names or [*PROGRAMS, *TRAPS]:
        if not (trap_is_there(name) if name in TRAPS else is_there(name)):
            print(f"{name}: its package is not installed here (make frameworks)\n")
            continue
        try:
            made = record(name) if name in PROGRAMS else record_trap(name)
            print(f"{made}\n", flush=True)
        except TrainerError as error:
            failed.append(name)
            print(f"{name}: {error}\n" + "\n".join(f"    │ {line}" for line in error.lines) + "\n", flush=True)
    print(f"recorded in {FOLDER}")
    return 1 if failed else 0


def _prepare(faults: Sequence[str]) -> int:
    """Let DeepSpeed compile what it needs. Where it can't, that is a sentence, and nothing else is affected."""
    there = report("deepspeed_0")
    packages = sorted({program.package for program in PROGRAMS.values()} - {""})
    ready = [f"{package} {environment_of_frameworks.version_of(package) or 'is not there'}" for package in packages]
    print("\n".join(each for each in (*faults, there.note, f"Lesson 15 has: {', '.join(ready)}.") if each))
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
