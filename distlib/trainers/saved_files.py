"""What a framework has saved: which files, and whether plain torch can load the model's part of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from distlib.trainers.same_task import WideClassifier, say

_SHORT = 100  # characters


def show_files(folder: str) -> None:
    """Print the files of a folder, and how large they are."""
    for file in sorted(Path(folder).rglob("*")):
        if file.is_file():
            say(f"{file.relative_to(folder)}  {file.stat().st_size:,} B")


def load_in_torch(file: str, *keys: str) -> None:
    """Load a file as torch does by default, take what is under these keys, and load it into a plain model. Print how.

    Args:
        keys: such as "model" where the file holds {"model": …, "optimizer": …}.
    """
    try:
        found: Any = torch.load(file)
        for key in keys:
            say(f"{Path(file).name} has {', '.join(map(str, found))}")
            found = found[key]
        load_state(found, Path(file).name)
    except Exception as error:  # whatever a framework's file leads to is what is to be seen
        say(f"plain torch, {Path(file).name}: {type(error).__name__}: {_gist(str(error))}")


def load_state(state: Mapping[str, torch.Tensor], origin: str) -> None:
    """Load a state into a plain model, and print how that went."""
    try:
        WideClassifier().load_state_dict(state)
        say(f"plain torch, {origin}: loads")
    except RuntimeError as error:
        first = next(iter(state), None)
        say(f"plain torch, {origin}: {_gist(str(error))} The first name in the file: {first}")


def _gist(message: str) -> str:
    """The first words of a long message."""
    words = " ".join(message.split())
    return words if len(words) <= _SHORT else f"{words[: _SHORT - 1]}…"
