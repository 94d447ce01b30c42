"""`python -m distlib.gpus`: run all measurements that this machine has GPUs for, print them and record them."""

from __future__ import annotations

import torch

from distlib.gpus.measurements import MEASUREMENTS
from distlib.gpus.recordings import FOLDER, NOT_YET, gpus_here, record


def main() -> int:
    """Returns the exit status: 1 if there is no GPU."""
    there = gpus_here()
    if not there:
        print(f"{NOT_YET}: torch {torch.__version__} sees none on this machine")
        return 1
    for name, measurement in MEASUREMENTS.items():
        if measurement.gpus <= there:
            print(f"{name}, on {record(name)}\n", flush=True)
        else:
            print(f"{name}: needs {measurement.gpus} GPUs\n", flush=True)
    print(f"recorded in {FOLDER}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
