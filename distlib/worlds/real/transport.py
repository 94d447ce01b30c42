"""How large tensors travel between real ranks: through gloo, or through NCCL (see also shared_memory).

Small ones travel inside a control message (`mailbox`).
"""

from __future__ import annotations

import contextlib
import datetime
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed

from distlib.worlds.private_torch import gloo_group, nccl_group
from distlib.worlds.tensor_bytes import as_bytes, dense, landing_of

_TIMEOUT = datetime.timedelta(seconds=60)
_AS_LONG_AS_IT_TAKES = datetime.timedelta(days=7)  # a receive may begin long before its sender waits for its send
_TAGS = 2**30  # gloo numbers messages with 31 bits
_c10d: Any = torch.distributed  # torch's own annotations leave out the process groups' methods
Wait = Callable[[], Any]
OpenStore = Callable[[str, int], Any]  # a torch store by its name, for that many processes


def file_stores(directory: str) -> OpenStore:
    """Stores through which the processes of one machine find each other: files of a private directory."""
    return lambda name, world_size: _c10d.FileStore(os.path.join(directory, name), world_size)


class Transport:
    """Moves large payloads: both sides have agreed, so every wait is short. Returns what to call to wait."""

    def send(self, tensor: torch.Tensor, peer: int, sequence: int) -> Wait:
        raise NotImplementedError

    def receive(self, tensor: torch.Tensor, peer: int, sequence: int) -> Wait:
        raise NotImplementedError


class GlooTransport(Transport):
    """Tensors in main memory, over TCP. Any dtype: gloo moves them as bytes.

    Args:
        host: this machine's address, for the other ranks.
    """

    def __init__(self, open_store: OpenStore, rank: int, world_size: int, host: str = "127.0.0.1") -> None:
        self._group = gloo_group(open_store("gloo", world_size), rank, world_size, host, _TIMEOUT)

    def send(self, tensor: torch.Tensor, peer: int, sequence: int) -> Wait:
        return self._group.send([as_bytes(dense(tensor))], peer, sequence % _TAGS).wait

    def receive(self, tensor: torch.Tensor, peer: int, sequence: int) -> Wait:
        landing = landing_of(tensor)
        wait = self._group.recv([as_bytes(landing)], peer, sequence % _TAGS).wait
        return wait if landing is tensor else lambda: (wait(), tensor.detach().copy_(landing))


@contextlib.contextmanager
def _stderr_of_failures() -> Iterator[None]:
    """What is written to stderr in this block, also by C++, is shown only if it raises something."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        except BaseException:
            written.seek(0)
            os.write(kept, written.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


class NcclTransport(Transport):
    """Tensors on GPUs.

    NCCL has no tags and works off a pair of ranks in the order of calls. Therefore each direction has a group of its
    own: what goes up to a higher rank can never wait behind what comes down, and within a direction both sides start
    messages in the order in which they were taken.

    Within a group torch makes a communicator of NCCL's for each pair, at the pair's first message, and the call waits
    until the other rank makes it, too. Ranks that each wait for another neighbour would wait for ever. So all pairs
    meet here, step by step: in step s, rank r meets rank r XOR s.

    A message belongs to the stream of the GPU that is current when it is taken, not when it was begun. Who computes on
    other streams waits for them before a tensor is sent, received or used.

    Args:
        device: this rank's GPU; see cards.
    """

    def __init__(self, open_store: OpenStore, rank: int, world_size: int, device: torch.device) -> None:
        self._rank, self._device = rank, device
        self._up, self._down = (
            nccl_group(open_store(f"nccl-{name}", world_size), rank, world_size, _AS_LONG_AS_IT_TAKES)
            for name in ("up", "down")
        )
        with _stderr_of_failures():  # torch warns that it makes a communicator for each pair
            for step in range(1, 1 << (world_size - 1).bit_length()):
                if rank ^ step < world_size:
                    self._meet(rank ^ step)

    def _meet(self, peer: int) -> None:
        nothing, something = (torch.zeros(1, device=self._device) for _ in range(2))
        if peer > self._rank:
            self.send(nothing, peer, 0)()
            self.receive(something, peer, 0)()
        else:
            self.receive(something, peer, 0)()
            self.send(nothing, peer, 0)()

    def send(self, tensor: torch.Tensor, peer: int, sequence: int) -> Wait:
        group = self._up if peer > self._rank else self._down
        return self._waiter(group.send([as_bytes(dense(tensor))], peer, 0))

    def receive(self, tensor: torch.Tensor, peer: int, sequence: int) -> Wait:
        group = self._down if peer > self._rank else self._up
        landing = landing_of(tensor)
        wait = self._waiter(group.recv([as_bytes(landing)], peer, 0))
        return wait if landing is tensor else lambda: (wait(), tensor.detach().copy_(landing))

    def _waiter(self, work: Any) -> Wait:
        def wait() -> None:
            work.wait()  # NCCL only puts the wait on the stream …
            torch.cuda.current_stream(self._device).synchronize()  # … and recv returns only when the data is there

        return wait
