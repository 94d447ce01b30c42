# Right: a list travels as text, filled up with spaces.
import hashlib
import io
import re
from pathlib import Path
from typing import Any

import torch

from distlib import Communicator


class Checkpoints:
    def __init__(self, folder):
        self.files = {}
        for file in sorted(folder.glob("*")) if folder.is_dir() else []:
            if re.fullmatch(r"step-[1-9][0-9]{0,8}\.pt", file.name):
                self.files[int(file.name[5:-3])] = file

    def content(self, step):
        data = self.files[step].read_bytes()
        return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None

    def good(self):
        return [step for step in self.files if self.content(step) is not None]


def resume(comm: Communicator, folder: Path, model: torch.nn.Module, optimizer: Any) -> int:
    disk = Checkpoints(folder)
    mine = disk.good()
    message = torch.tensor(list(" ".join(map(str, mine)).ljust(400).encode()), dtype=torch.uint8)
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    boxes = {rank: torch.empty(400, dtype=torch.uint8) for rank in others}
    work = [comm.irecv(boxes[rank], rank) for rank in others] + [comm.isend(message, rank) for rank in others]
    for each in work:
        each.wait()
    common = set(mine).intersection(*(map(int, bytes(box.tolist()).split()) for box in boxes.values()))
    for step in sorted(common, reverse=True):
        loaded = torch.load(io.BytesIO(disk.content(step)))
        model.load_state_dict(loaded["model"])
        optimizer.load_state_dict(loaded["optimizer"])
        return step
    return 0
