"""What a World says of the same faults: which rank, which line, and why."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from distlib import Communicator, World
from distlib.clinic import PATIENTS, our_ranks
from distlib.clinic.our_ranks import our_faults, run_on_our_ranks, source_on_our_ranks

SAID = {  # the telling words, and the line of same_faults.py that the report begins with, as it stands there
    "skipped_collective": ("rank 2 waits in barrier", "all_reduce(comm, batch.sum().view(1))"),
    "order_of_calls": ("rank 0 is in broadcast(4 float32", "broadcast(comm, stop)"),
    "order_of_groups": ("not on the same communicator", "all_reduce(data, gradients)"),
    "barrier_on_rank_zero": ("rank 0 waits in barrier for rank 1", "comm.barrier()"),
    "local_condition": ("rank 1 is in broadcast(4 float32", "all_reduce(comm, gradient)"),
    "uneven_data": ("rank 1 waits in barrier for rank 0", "model(batch).sum().backward()"),
    "save_on_rank_zero": ("in collective call 1: gather", "gather(comm, state)"),
    "extra_forward": ("rank 0 is in broadcast(2 float32", "model(torch.randn(4, 2)).square().sum().backward()"),
    "slow_rank": ("rank 1 was computing at same_faults.py", "all_reduce(comm, torch.ones(1))"),
    "shapes_differ": ("rank 0 is in all_reduce(8 float32", "all_reduce(comm, torch.ones(8 if comm.rank == 0 else 4))"),
    "float64_on_one_rank": ("all_reduce(1 float64", "all_reduce(comm, torch.ones(1, dtype="),
    "exception_on_one_rank": ("rank 1 raised ValueError: expected a digit, got 10", "raise ValueError("),
    "unused_parameters": ("on rank 1 the backward pass produced no gradient for 1.bias", "(output if comm.rank == 1"),
    "killed_loader_worker": ("orker", ""),
    "dead_rank": ("rank 1 ended in the middle of the run: its process was killed by signal 9", "all_reduce(comm"),
    "int32_on_one_rank": ("rank 1 is in all_reduce(4 int32", "all_reduce(comm, torch.ones(4, dtype="),
    "read_before_wait": ("step 1: weight has different weights on rank 1", "check()"),
    "different_seeds": ("step 10: weight has different weights on rank 1", "check()"),
    "same_samples": ("sample 0: 2 times (ranks 0 and 1)", "check_samples(seen, 8, comm)"),
}
ELSEWHERE = {"wrong_port", "wrong_world_size", "two_rank_zeros", "not_in_the_group"}  # can't be made here


@pytest.fixture(scope="module")
def worlds() -> Iterator[dict[int, World]]:
    with World(2) as two, World(3) as three:
        yield {2: two, 3: three}


def test_each_patient_is_here_or_can_not_be() -> None:
    assert set(SAID) == set(our_faults())
    assert set(SAID) | ELSEWHERE == set(PATIENTS)


@pytest.mark.parametrize("name", SAID)
def test_a_world_names_rank_line_and_cause(name: str, worlds: dict[int, World]) -> None:
    words, line = SAID[name]
    error = run_on_our_ranks(name, worlds[PATIENTS[name].ranks], timeout=5 if name == "slow_rank" else 100)
    assert words in str(error)
    assert str(error).startswith("same_faults.py, line ")
    assert error.site is not None
    assert line in our_lines()[error.site.line - 1]
    assert line in source_on_our_ranks(name)


IGNORED = """\
Exception ignored in: <function File.__del__ at 0x7f74b497ee80>
Traceback (most recent call last):
  File "/usr/lib/python3.11/tempfile.py", line 450, in __del__
OSError: 5"""


def test_what_ranks_print_is_folded(
    worlds: dict[int, World], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raises(comm: Communicator) -> None:
        print("step 1", flush=True)
        print(IGNORED, file=sys.stderr, flush=True)
        raise ValueError("no digit")

    monkeypatch.setattr(our_ranks, "our_faults", lambda: {"raises": raises})
    assert "ranks 0 and 1 raised ValueError: no digit" in str(run_on_our_ranks("raises", worlds[2]))
    printed, complaints = capsys.readouterr()
    folded = "  (… 4 lines that Python ignores: OSError: 5)"
    assert printed.splitlines() == [f"[rank {rank}] {line}" for rank in (0, 1) for line in (folded, "step 1")]
    assert complaints == "" and worlds[2].on_output is None


def our_lines() -> list[str]:
    """The lines of the file that reports name."""
    import distlib.clinic.same_faults as faults

    with open(faults.__file__) as file:
        return file.read().splitlines()
