"""What is counted in each process of a program: collectives, bytes, processes. `same_task` calls it.

    begin()       when the model is made: from here, each collective that this thread asks for is noted
    step(model)   when a step begins
    end(model)    writes <folder>/<rank>.json and, on rank 0, <folder>/parameters.pt

A collective passes torch's dispatcher also when C++ asks for it, as DDP's reducer does; a mode sees it there. What gloo
makes of it stands in torch's flight recorder, which has its own list. Without a folder to write to nothing is counted.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from distlib.collectives import collective
from distlib.frameworks.own_home import BEGAN, FOUND
from distlib.worlds import private_torch

PARAMETERS = "parameters.pt"  # rank 0's, as torch saves them
LOOKED_AT = 30  # the step that is looked at: DDP has built its buckets anew, Adam has its states
NAMES = {
    **dict.fromkeys(("allreduce_", "allreduce_coalesced_"), "all_reduce"),
    **dict.fromkeys(("allgather_", "_allgather_base_", "allgather_into_tensor_coalesced_"), "all_gather"),
    **dict.fromkeys(("reduce_scatter_", "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_"), "reduce_scatter"),
    **dict.fromkeys(("alltoall_", "alltoall_base_"), "all_to_all"),
    **{"broadcast_": "broadcast", "reduce_": "reduce", "gather_": "gather", "scatter_": "scatter"},
    **{"barrier": "barrier", "send": "send", "recv_": "recv"},
}

Call = tuple[str, int]  # a collective, and the bytes of the whole tensor that it is about


class _Tally:
    """What is known of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rank: int | None = None  # of a World; torch.distributed knows its own
        self.calls: list[Call] = []
        self.steps: list[tuple[int, int]] = []  # for each, how many calls there had been, and the time in ns
        self.model: nn.Module | None = None
        self.first_step = 0.0
        self.bytes: dict[str, int] = {}
        self.processes: list[str] = []


class _CallNoter(private_torch.DispatchMode):
    """Notes each collective that passes torch's dispatcher."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            name = func.overloadpacket.__name__
            self._calls.append((NAMES.get(name, name), 0 if name == "barrier" else max(map(nbytes, args[:2]))))
        return func(*args, **(kwargs or {}))


_tally: _Tally | None = None


def begin() -> None:
    """The model is being made. Only the first one of a process counts."""
    global _tally
    if FOUND not in os.environ or _tally is not None:
        return
    _tally = _Tally(Path(os.environ[FOUND]))
    _CallNoter(_tally.calls).__enter__()
    collective.announced = _noting(collective.announced, _tally)  # type: ignore[attr-defined]
    register_optimizer_step_pre_hook(_before_step)
    register_optimizer_step_post_hook(_after_step)


def step(model: nn.Module) -> None:
    """A step of the training begins. model: the one that is trained."""
    if _tally is not None:
        _tally.model = model
        _tally.steps.append((len(_tally.calls), time.time_ns()))


def end(model: nn.Module) -> None:
    """The training is over. model: its parameters, whole."""
    if _tally is None:
        return
    _tally.steps.append((len(_tally.calls), time.time_ns()))
    rank = _rank()
    if rank == 0:
        torch.save(dict(model.state_dict()), _tally.folder / PARAMETERS)
    draft = _tally.folder / f"{rank}.draft"
    draft.write_text(json.dumps(_found(_tally)))
    draft.rename(draft.with_suffix(".json"))


def who() -> str:
    """This process, in words: "rank 1"."""
    return f"rank {_rank()}"


def _rank() -> int:
    if dist.is_initialized():
        return dist.get_rank()
    return (_tally.rank if _tally else None) or 0


def _found(tally: _Tally) -> dict[str, Any]:
    marks = [calls for calls, _ in tally.steps]
    began, ended = (tally.steps[step][1] for step in (LOOKED_AT, LOOKED_AT + 1))
    of_gloo = [each for each in private_torch.recorded_calls() if began <= each["time_created_ns"] < ended]
    return {
        "steps": len(tally.steps) - 1,
        "run": tally.calls,
        "by_step": [tally.calls[start:stop] for start, stop in zip(marks, marks[1:], strict=False)],
        "gloo_step": [_of_gloo(each) for each in of_gloo],
        "seconds_to_first_step": tally.first_step - float(os.environ[BEGAN]),
        "bytes": tally.bytes,
        "processes": tally.processes,
    }


def _of_gloo(entry: dict[str, Any]) -> Call:
    """A call of the flight recorder. It names dtypes as "Float", and has a shape for each tensor."""
    sizes = {"Float": 4, "Double": 8, "Long": 8, "Int": 4, "Byte": 1, "BFloat16": 2, "Half": 2, "Bool": 1, "Char": 1}
    both = [
        sum(sizes.get(dtype, 1) * math.prod(shape) for dtype, shape in zip(dtypes, shapes, strict=False))
        for dtypes, shapes in (
            (entry["input_dtypes"], entry["input_sizes"]),
            (entry["output_dtypes"], entry["output_sizes"]),
        )
    ]
    return entry["profiling_name"].removeprefix("gloo:"), max(both)


def nbytes(value: Any) -> int:
    """The bytes of all tensors in an argument, 0 for anything else."""
    if isinstance(value, torch.Tensor):
        return value.nbytes
    return sum(map(nbytes, value)) if isinstance(value, list | tuple) else 0


def _noting(announced: Callable[..., Any], tally: _Tally) -> Callable[..., Any]:
    """distlib's own collectives announce themselves: note it."""

    def note(comm: Any, name: str, tensor: torch.Tensor, **options: Any) -> Any:
        tally.rank = comm.rank
        tally.calls.append((name, tensor.nbytes))
        return announced(comm, name, tensor, **options)

    return note


# ── a step of the optimizer ──────────────────────────────────────────────────────────────────────────────────────────


def _before_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    """Gradients and states are there: what do they take?"""
    assert _tally is not None
    if len(_tally.steps) == LOOKED_AT and _tally.model is not None:
        _tally.bytes = _bytes_of(_tally.model, optimizer)
        if _rank() == 0:
            _tally.processes = _processes_of_run()


def _after_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    assert _tally is not None
    _tally.first_step = _tally.first_step or time.time()


def _bytes_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """What is kept for the model, each stretch of memory once. Copies: parameters that only the optimizer has."""
    stepped = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    parameters = list(model.parameters())
    kept = [getattr(parameter, "ds_tensor", None) for parameter in parameters]  # DeepSpeed's part of a parameter
    states = [value for state in optimizer.state.values() for value in state.values()]
    seen: set[int] = set()
    kinds = {
        "parameters": [*parameters, *kept],
        "gradients": [parameter.grad for parameter in (*parameters, *stepped)],
        "optimizer states": states,
        "copies": stepped,
    }
    return {kind: sum(_own_bytes(tensor, seen) for tensor in tensors) for kind, tensors in kinds.items()}


def _own_bytes(tensor: Any, seen: set[int]) -> int:
    """The bytes of a tensor's memory, 0 if it was counted before."""
    if not isinstance(tensor, torch.Tensor) or tensor.numel() == 0 or tensor.dim() == 0:
        return 0
    storage = tensor.untyped_storage()
    if storage.data_ptr() in seen:
        return 0
    seen.add(storage.data_ptr())
    return storage.nbytes()


def _processes_of_run() -> list[str]:
    """What all processes of this run are, by its mark in their environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(FOUND) == os.environ[FOUND]:
                found.append(_short(process.cmdline()) or process.name())
    return sorted(found)


def _short(command: list[str]) -> str:
    """What a process runs, without paths and options: "python train.py", "python -m torch.distributed.run"."""
    name = Path(command[0].strip()).name if command else ""
    if not name.startswith("python"):
        return name
    if "-m" in command[:3]:
        return f"python -m {command[command.index('-m') + 1]}"
    script = next((word for word in command[1:] if not word.startswith("-")), "")
    return f"python {Path(script).name}" if "-c" not in command[:3] else "python -c …"
