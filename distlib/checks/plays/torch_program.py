"""A process group of torch for a student's function: over the ranks of the case, while the block lasts.

RUNS_TORCH = True

def train(comm, function, inputs, gate):
    with process_group(comm):
        function(model, inputs["batches"])     # torch.distributed is initialized in here
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from distlib import torch_distributed
from distlib.checks.student_communicator import unwrapped
from distlib.communicator import Communicator


@contextlib.contextmanager
def process_group(comm: Communicator) -> Iterator[None]:
    """torch.distributed's default process group over the ranks of `comm`, which a play was handed."""
    with torch_distributed(unwrapped(comm)):
        yield
