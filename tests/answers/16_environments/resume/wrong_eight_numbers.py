# Wrong: tells only the eight newest steps. Loses the hidden marks.
# Told: Do the numbers of all good files travel
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from distlib import Communicator


def good_checkpoints(folder):
    good = {}
    if folder.is_dir():
        for file in folder.iterdir():
            m = re.fullmatch(r"step-([0-9]+)\.pt", file.name)
            if m and file.is_file():
                data = file.read_bytes()
                if hashlib.sha256(data[32:]).digest() == data[:32]:
                    good[int(m[1])] = data[32:]
    return good


def resume(comm: Communicator, folder: Path, model: torch.nn.Module, optimizer: Any) -> int:
    good = good_checkpoints(folder)
    common = set(good)
    mine = torch.full((8,), -1, dtype=torch.int64)
    mine[: min(8, len(good))] = torch.tensor(sorted(good)[-8:], dtype=torch.int64)
    for i in range(1, comm.world_size):
        other = torch.empty_like(mine)
        comm.exchange(mine, (comm.rank + i) % comm.world_size, other, (comm.rank - i) % comm.world_size)
        common &= set(other.tolist())
    if not common:
        return 0
    step = max(common)
    state = torch.load(io.BytesIO(good[step]))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return step
