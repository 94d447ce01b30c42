"""What each process does when a port runs on the real framework: it plays what a check plays, with that one.

Started by torchrun, see `real`.
"""

from __future__ import annotations

import os
import pickle
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from distlib.exercises.frameworks.port_plays import evaluate_and_count, train_and_save
from distlib.frameworks.own_home import FOUND


def make_framework(package: str, inputs: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The framework's object on this process, and which inputs are arguments of a training."""
    real = import_module(package)  # not there where the course is
    if package == "accelerate":
        steps = inputs.get("accumulate", 1)
        return real.Accelerator(cpu=True, gradient_accumulation_steps=steps), ("epochs", "max_norm")
    fabric = real.Fabric(accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp")
    fabric.launch()
    return fabric, ("epochs", "accumulate", "max_norm")


def result_of(rank: int) -> str:
    """The name of the file that a rank leaves."""
    return f"result {rank}"


def play(pickled: bytes) -> None:
    """Play a job; leave what came of it, and the gates that were passed, to be handed on."""
    rank, gates = int(os.environ["RANK"]), list[tuple[int, float]]()
    job = pickle.loads(pickled)
    inputs = job["part"].inputs[rank]
    framework, names = make_framework(job["package"], inputs)

    def gate(k: int, values: object = None) -> float:
        gates.append((k, 0.0))
        return float(job["part"].factor(rank, k))

    if "parameters" in inputs:
        result = train_and_save(framework, job["function"], inputs, gate, names, torch.optim.SGD)
        result["parameters"] = {name: each.detach() for name, each in result["parameters"].items()}
    else:
        result = evaluate_and_count(framework, job["function"], inputs)
    (Path(os.environ[FOUND]) / result_of(rank)).write_bytes(pickle.dumps((result, gates)))
    dist.barrier()
    dist.destroy_process_group()
