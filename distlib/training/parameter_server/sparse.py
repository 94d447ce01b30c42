"""A table of which every step touches a few rows: only these are pulled and pushed.

    the table, R rows of d numbers        a step that touches rows 2, 3 and 901
    server 0   rows   0 … 499             worker ── keys 2, 3 ──►  server 0  ── 2 rows ──►  worker
    server 1   rows 500 … 999             worker ── key 901 ────►  server 1  ── 1 row ───►  worker

Each server has a *key range*: consecutive rows. A worker sends to each server the keys of the rows that it needs there,
and gets those rows. Afterwards it sends the same keys again, and the gradient of each row. A server of which a step
needs no row hears nothing of it.

If a step touches k distinct rows, on m of S servers, its worker sends and receives (8-byte keys, 4-byte numbers)

    sparse     32·m + 16·k + 8·k·d bytes, however large the table is
    dense      32·S + 8·R·d bytes

Training is asynchronous: a gradient is applied by plain SGD as soon as it arrives, and counts as it is. A row that no
sample touches has a gradient of 0, so this is what dense SGD computes. It is *not* what momentum, weight decay or Adam
compute: these move a row also in steps that do not touch it.

M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014, sections 3.1 (keys and
values) and 4 (key ranges). F. Niu et al., "Hogwild", NIPS 2011: steps that touch few rows hardly collide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch

from distlib.arguments import checked
from distlib.communicator import Communicator, Work
from distlib.training.parameter_server.protocol import GRADIENT, KEYS, LEAVE, PARAMETERS, PULL, PUSH, REQUEST


@checked
def key_ranges(num_rows: int, num_servers: int) -> list[range]:
    """Which rows each server keeps: consecutive ones, the lengths equal or one apart, the longer ones first.

    Raises:
        ValueError: no server, or more servers than rows.
    """
    if not 1 <= num_servers <= num_rows:
        raise ValueError(f"expected 1 to {num_rows} servers for {num_rows} rows, got {num_servers}")
    length, longer = divmod(num_rows, num_servers)
    starts = [server * length + min(server, longer) for server in range(num_servers + 1)]
    return [range(start, stop) for start, stop in pairwise(starts)]


@dataclass
class SparseLog:
    """What a server of a sparse table has done.

    Attributes:
        pushed: for each gradient that was applied, in order: the worker, and how many rows it touched.
        changed: for each of them, how many of these rows had changed since its worker pulled them.
    """

    pushed: list[tuple[int, int]] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)


def sparse_server_loop(
    comm: Communicator, workers: Sequence[int], rows: torch.Tensor, first_key: int, rate: float
) -> SparseLog:
    """Serve a key range until all workers have left.

    Args:
        comm: of this server and all workers.
        workers: the ranks that are waited for.
        rows: this server's part of the table, [rows, width]. Changed in place.
        first_key: the key of the first of these rows.
        rate: the learning rate.

    Returns:
        What it has done.

    Raises:
        ValueError: a key that is not in this server's range.
        MessageMismatch: rows of a different width or dtype.
        PeerLost: a worker has died.
    """
    part, remaining = _TablePart(rows, first_key, rate), set(workers)
    request, sending = torch.empty(2, dtype=torch.int64), dict[int, Work]()
    while remaining:
        worker = comm.recv(request, tag=REQUEST)
        if work := sending.pop(worker, None):
            work.wait()  # it has these rows, else it would not ask for anything
        kind, count = request.tolist()
        if kind == LEAVE:
            remaining.discard(worker)
            continue
        keys = torch.empty(count, dtype=torch.int64)
        comm.recv(keys, worker, KEYS)
        mine = part.indices_of(keys, worker)
        if kind == PULL:
            sending[worker] = comm.isend(part.pull(worker, mine), worker, PARAMETERS)
        elif kind == PUSH:
            gradient = rows.new_empty(count, rows.shape[1])
            comm.recv(gradient, worker, GRADIENT)
            part.push(worker, mine, gradient)
    return part.log


class _TablePart:
    """A server's part of the table, and who has which version of its rows."""

    def __init__(self, rows: torch.Tensor, first_key: int, rate: float) -> None:
        self.log = SparseLog()
        self._rows, self._first_key, self._rate = rows, first_key, rate
        self._version = torch.zeros(len(rows), dtype=torch.int64)  # how often each row was changed
        self._seen: dict[int, torch.Tensor] = {}  # for each worker, the versions that it has pulled

    def indices_of(self, keys: torch.Tensor, worker: int) -> torch.Tensor:
        """Where these rows stand here."""
        indices = keys - self._first_key
        if len(keys) and not (0 <= int(indices.min()) and int(indices.max()) < len(self._rows)):
            last = self._first_key + len(self._rows) - 1
            raise ValueError(
                f"expected keys from {self._first_key} to {last}, got {int(keys.min())} to {int(keys.max())} from rank "
                f"{worker}: are number of rows and servers the same on all ranks?"
            )
        return indices

    def pull(self, worker: int, indices: torch.Tensor) -> torch.Tensor:
        """A copy of these rows: they may change while it is on its way."""
        self._seen.setdefault(worker, torch.zeros_like(self._version))[indices] = self._version[indices]
        return self._rows[indices]

    def push(self, worker: int, indices: torch.Tensor, gradient: torch.Tensor) -> None:
        """Take a step of SGD in these rows."""
        seen = self._seen.get(worker, torch.zeros_like(self._version))
        self._rows.index_add_(0, indices, gradient, alpha=-self._rate)
        self.log.pushed.append((worker, len(indices)))
        self.log.changed.append(int((self._version[indices] > seen[indices]).sum()))
        self._version[indices] += 1


class SparseClient:
    """A worker's way to the rows of a table. Requests to all servers are under way at the same time.

    Args:
        comm: of this worker and the servers.
        servers: their ranks.
        num_rows, width: of the table.
        dtype: of the table.

    Raises:
        ValueError: no server, or more servers than rows.
    """

    def __init__(
        self,
        comm: Communicator,
        servers: Sequence[int],
        num_rows: int,
        width: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._comm, self._servers, self._num_rows = comm, list(servers), num_rows
        self._width, self._dtype = width, dtype
        self._ends = torch.tensor([keys.stop for keys in key_ranges(num_rows, len(servers))])

    def pull(self, keys: torch.Tensor) -> torch.Tensor:
        """The rows of some keys, [keys, width], a new tensor.

        Args:
            keys: int64, rising, each once, as `torch.unique` returns them.

        Raises:
            ValueError: other keys.
        """
        rows = torch.empty(len(keys), self._width, dtype=self._dtype)
        works = []
        for server, mine, part in self._by_server(keys, rows):
            works += [self._comm.irecv(part, server, PARAMETERS), *self._ask(server, PULL, mine)]
        _wait(works)
        return rows

    def push(self, keys: torch.Tensor, gradients: torch.Tensor) -> None:
        """Send the gradients of some rows, which are not changed; return when all servers have taken their parts.

        Args:
            keys: as of `pull`.
            gradients: [keys, width].

        Raises:
            ValueError: other keys, or gradients of another shape or dtype.
        """
        if gradients.shape != (len(keys), self._width) or gradients.dtype != self._dtype:
            raise ValueError(
                f"expected gradients of shape [{len(keys)}, {self._width}] and {self._dtype}, one row per key, got "
                f"{list(gradients.shape)} and {gradients.dtype}"
            )
        works = []
        for server, mine, part in self._by_server(keys, gradients.contiguous()):
            works += [*self._ask(server, PUSH, mine), self._comm.isend(part, server, GRADIENT)]
        _wait(works)

    def leave(self) -> None:
        """Tell all servers that nothing more comes from here."""
        _wait([work for server in self._servers for work in self._ask(server, LEAVE)])

    def _by_server(self, keys: torch.Tensor, rows: torch.Tensor) -> list[tuple[int, torch.Tensor, torch.Tensor]]:
        """For each server that has some of the keys: its rank, its keys, and its part of the rows."""
        self._check(keys)
        cuts = [0, *torch.searchsorted(keys, self._ends).tolist()]
        parts = zip(self._servers, pairwise(cuts), strict=True)
        return [(server, keys[start:stop], rows[start:stop]) for server, (start, stop) in parts if start < stop]

    def _check(self, keys: torch.Tensor) -> None:
        if keys.dtype != torch.int64 or keys.ndim != 1 or not bool((keys.diff() > 0).all()):
            raise ValueError(
                "expected keys as torch.unique returns them: int64, one-dimensional, rising, each once. Where samples "
                "share a row, add up its gradients"
            )
        if len(keys) and not (0 <= int(keys[0]) and int(keys[-1]) < self._num_rows):
            raise ValueError(
                f"expected keys from 0 to {self._num_rows - 1}, got keys from {int(keys[0])} to {int(keys[-1])}"
            )

    def _ask(self, server: int, kind: int, keys: torch.Tensor | None = None) -> list[Work]:
        count = 0 if keys is None else len(keys)
        works = [self._comm.isend(torch.tensor([kind, count]), server, REQUEST)]
        return works if keys is None else [*works, self._comm.isend(keys, server, KEYS)]


def _wait(works: Sequence[Work]) -> None:
    for work in works:
        work.wait()
