"""Plays of exercise 16b: variables of many tasks, and checkpoints in a folder.

Files are real, in a temporary folder that each rank has to itself, as nodes have disks of their own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator


def each_task(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> list[dict[str, Any]]:
    """For the variables of each task what `function(variables)` returns, or the error that refuses them.

    Meanwhile os.environ has variables of something else. `exported`: those that the function has changed there.
    """
    before = dict(os.environ)
    meanwhile = {**before, **inputs["elsewhere"]}
    _set_environ(meanwhile)
    raw = dict(_raw_environ())
    try:
        return [_ask(function, dict(variables), meanwhile, raw) for variables in inputs["tasks"]]
    finally:
        _set_environ(before)


def _ask(
    function: Callable[..., Any], variables: dict[str, str], meanwhile: Mapping[str, str], raw: Mapping[Any, Any]
) -> dict[str, Any]:
    try:
        told = {"returned": function(variables)}
    except (LookupError, ValueError) as error:
        told = {"refused": f"{type(error).__name__}: {error}"}
    exported = [] if _raw_environ() == raw else _restore_environ(meanwhile)
    return {**told, "variables": variables, "exported": exported}


def _raw_environ() -> Mapping[Any, Any]:
    """What os.environ holds before it decodes it. Hundreds of tasks are asked, and to decode it takes most of the time.

    Where os.environ is something else by now, that: it equals no raw one.
    """
    return getattr(os.environ, "_data", os.environ)


def _restore_environ(wanted: Mapping[str, str]) -> list[str]:
    """Undo what has changed in os.environ. Returns the names."""
    found = dict(os.environ)
    _set_environ(wanted)
    return sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))


def _set_environ(wanted: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(wanted)


def of_the_model(values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What belongs to the model, and not to the optimizer."""
    return {name: value for name, value in values.items() if name != "velocity"}


class Layers(torch.nn.Linear):
    """A layer with the weights given, which may have further ones, "layer2", …; it notes what it was loaded with."""

    def __init__(self, values: Mapping[str, torch.Tensor]) -> None:
        outputs, inputs = values["weight"].shape
        super().__init__(inputs, outputs, dtype=torch.float64)
        for name in [name.partition(".")[0] for name in values if name.endswith(".weight")]:
            self.add_module(name, torch.nn.Linear(outputs, outputs, dtype=torch.float64))
        super().load_state_dict({name: value.clone() for name, value in of_the_model(values).items()})
        self.loaded: list[torch.Tensor] = []

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        self.loaded.append(state_dict["weight"].detach().clone())
        return super().load_state_dict(state_dict, *args, **kwargs)


class Momentum:
    """What an optimizer keeps; used as one of torch's, which take seconds to be imported."""

    def __init__(self, values: Mapping[str, torch.Tensor]) -> None:
        self.velocity = values["velocity"].clone()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What a checkpoint holds of it."""
        return {"velocity": self.velocity}

    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor]) -> None:
        """Go on from what a checkpoint holds."""
        self.velocity = state_dict["velocity"].clone()


def resumed(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, folder, model, optimizer)` where the folder has the files given, or does not exist.

    Returns the step, what model and optimizer hold, what the model was loaded with, and afterwards the files, and
    whether the folder is there.
    """
    model, optimizer = Layers(inputs["start"]), Momentum(inputs["start"])
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "checkpoints"
        if inputs["files"] is not None:
            folder.mkdir()
        for name, content in (inputs["files"] or {}).items():
            (folder / name).write_bytes(content.numpy().tobytes())
        step = function(comm, folder, model, optimizer)
        after = {path.name: _content(path) for path in sorted(folder.glob("*"))}
        is_there = folder.is_dir()
    held = {**dict(model.named_parameters()), "velocity": optimizer.velocity}
    return {"step": step, "held": held, "loaded": model.loaded, "files": after, "is_there": is_there}


def _content(path: Path) -> torch.Tensor | None:
    return as_tensor(path.read_bytes()) if path.is_file() else None


def as_tensor(content: bytes) -> torch.Tensor:
    """Bytes as they travel to a rank and back: uint8."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)
