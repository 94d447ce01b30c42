"""The picture of a deadlock: who waits for whom, whoever has returned, and what is refused."""

from __future__ import annotations

import pytest
import torch

from distlib import Communicator, SimulatedWorld
from distlib.draw import who_waits
from distlib.worlds.diagnosis import DeadlockError
from tests.tools.draw_samples import texts


def around(comm: Communicator) -> None:
    comm.recv(torch.zeros(4), (comm.rank + 1) % comm.world_size)


def in_vain(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.recv(torch.zeros(4), src=1)


def at_a_barrier(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.barrier()
    else:
        comm.recv(torch.zeros(1), 0)


def hang(function: object, ranks: int = 2) -> DeadlockError:
    with pytest.raises(DeadlockError) as caught:
        SimulatedWorld(ranks).run(function)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_circle_has_an_arrow_for_each_rank(ranks: int) -> None:
    picture = who_waits(hang(around, ranks))
    assert len([patch for patch in picture.figure.axes[0].patches if hasattr(patch, "get_arrowstyle")]) == ranks
    assert texts(picture).count("waits to receive 4 float32") == ranks
    for rank in range(ranks):
        assert f"Rank {rank} waits to receive 4 float32, and needs rank {(rank + 1) % ranks}." in picture.alt


def test_a_rank_that_has_returned_is_said_to_have() -> None:
    picture = who_waits(hang(in_vain))
    assert "has returned" in texts(picture) and picture.alt.endswith("Rank 1 has already returned.")


def test_a_barrier_is_a_wait_like_any_other() -> None:
    assert "Rank 0 waits in barrier, and needs rank 1." in who_waits(hang(at_a_barrier)).alt


def test_what_is_no_chain_is_refused() -> None:
    with pytest.raises(ValueError, match="whose ranks wait for each other"):
        who_waits(DeadlockError("deadlock."))
    with pytest.raises(ValueError, match="expected a DeadlockError"):
        who_waits(RuntimeError("no"))  # type: ignore[arg-type]
