"""Right programs of plain torch on the backend "distlib", again and again: none may be told that it is wrong.

    python -m tests.tools.right_programs        200 runs of DDP, fully_shard, tensor parallelism, pipelines, DCP …
    python -m tests.tools.right_programs 50

Best on a busy machine. The status is 0 if there was no error.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import warnings
from typing import Any

from distlib import Communicator, SimulatedWorld, World, torch_distributed
from tests.torch_backend.programs import PROGRAMS, checkpoint


def main(runs: int = 200) -> int:
    """Run them by turns, three times on real ranks and then once in virtual time. Prints each error."""
    errors, simulated = 0, SimulatedWorld(4, contexts="threads")
    with World(4, on_output=lambda *_: None) as world, tempfile.TemporaryDirectory() as folder:
        given = [(program, ()) for program in PROGRAMS] + [(checkpoint, (folder,))]
        for number, (program, arguments) in zip(range(runs), itertools.cycle(given), strict=False):
            on = simulated if number % 4 == 3 and program is not checkpoint else world
            try:
                on.run(_run, program, *arguments, timeout=300)
            except Exception as error:
                errors += 1
                print(f"run {number}, {program.__name__}, {type(on).__name__}: {error}", flush=True)
    print(f"{runs} runs of {len(given)} right programs: {errors} errors")
    return int(errors > 0)


def _run(comm: Communicator, program: Any, *arguments: Any) -> None:
    warnings.simplefilter("ignore")
    with torch_distributed(comm) as dist:
        program(dist, *arguments)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
