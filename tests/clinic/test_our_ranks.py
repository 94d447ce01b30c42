"""What a World says of a patient's own program, unchanged: which rank, which line, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from distlib import World
from distlib.clinic import PATIENTS
from distlib.clinic.our_ranks import run_on_our_ranks

SAID = {  # the telling words, and the line of the program that the report begins with, as it stands there
    "skipped_collective": ("after collective call 2)", "dist.all_reduce(loss)"),
    "order_of_calls": ("all_reduce(4 float32, op=SUM)", "dist.broadcast(stop, src=0)"),
    "order_of_groups": ("alike, but not in the same group", "dist.all_reduce(gradients, group=data)"),
    "different_roots": ("collective call 1: broadcast(3 float32, src=1)", "dist.broadcast(weights, src=best)"),
    "barrier_on_rank_zero": ("rank 0 waits in barrier for rank 1", "dist.barrier()"),
    "local_condition": ("broadcast(4 float32, src=0)", "dist.all_reduce(gradient)"),
    "uneven_data": ("after collective call 9)", "model(batch).sum().backward()"),
    "save_on_rank_zero": ("rank 1 waits in barrier for rank 0 (save_on_rank_zero.py, line 16",
                          "optimizer.consolidate_state_dict(to=0)"),
    "extra_forward": ("at extra_forward.py, line 13 on rank 0 and at extra_forward.py, line 11 on rank 1",
                      "model(torch.randn(4, 2)).square().sum().backward()"),
    "slow_rank": ("rank 1 was computing at slow_rank.py, line 13", "dist.all_reduce(correct)"),
    "wrong_world_size": ("got world_size=3, and there are 2 ranks", "dist.init_process_group("),
    "two_rank_zeros": ("rank 1 raised ValueError: init_process_group got rank=0 on rank 1", "dist.init_process_group("),
    "shapes_differ": ("all_reduce(8 float32, op=SUM)", "dist.all_reduce(mine)"),
    "float64_on_one_rank": ("all_reduce(1 float64, op=SUM)", "dist.all_reduce(loss)"),
    "exception_on_one_rank": ("rank 1 raised ValueError: expected a digit, got 10", "raise ValueError("),
    "unused_parameters": ("DDP waited for the gradients of old_head.bias, old_head.weight", "model(torch.ones(1, 2))"),
    "killed_loader_worker": ("orker", ""),
    "dead_rank": ("rank 1 ended in the middle of the run: its process was killed by signal 9", "all_reduce(total)"),
    "int32_on_one_rank": ("rank 1 is in all_reduce(4 int32, op=SUM)", "dist.all_reduce(samples)"),
    "sum_against_max": ("rank 1 is in all_reduce(4 float32, op=MAX)", "dist.all_reduce(losses, dist.ReduceOp.SUM)"),
    "other_layout": ("broadcast(1×2×2×2 float32 with strides (8, 1, 4, 2), src=0)", "dist.broadcast(kernel, src=0)"),
}  # fmt: skip
UNHEARD = {  # what a world does not notice: the ranks' calls fit each other, or a port is not needed
    *("wrong_port", "read_before_wait", "different_seeds", "same_samples", "not_in_the_group", "summed_gradients"),
}


@pytest.fixture(scope="module")
def ranks() -> Iterator[dict[int, World]]:
    with World(2) as two, World(3) as three, World(4) as four:
        yield {2: two, 3: three, 4: four}


def test_each_patient_is_said_something_of_or_is_unheard() -> None:
    assert set(SAID) | UNHEARD == set(PATIENTS) and not set(SAID) & UNHEARD


@pytest.mark.parametrize("name", SAID)
def test_a_world_names_rank_line_and_cause(name: str, ranks: dict[int, World]) -> None:
    words, line = SAID[name]
    patient = PATIENTS[name]
    error = run_on_our_ranks(name, ranks[patient.ranks], timeout=5 if name == "slow_rank" else 100)
    assert error is not None and words in str(error)
    assert re.search(r"\branks? \d", str(error))
    (number,) = re.match(rf"{name}\.py, line (\d+): ", str(error)).groups()  # type: ignore[union-attr]
    assert line in patient.program.splitlines()[int(number) - 1]
    assert error.site is not None and error.site.file == patient.file


@pytest.mark.parametrize("name", sorted(UNHEARD))
def test_what_a_world_does_not_notice(name: str, ranks: dict[int, World]) -> None:
    assert run_on_our_ranks(name, ranks[PATIENTS[name].ranks], timeout=100) is None


@pytest.mark.parametrize("name", PATIENTS)
def test_a_healed_patient_is_well_on_our_ranks(name: str, ranks: dict[int, World]) -> None:
    assert run_on_our_ranks(name, ranks[PATIENTS[name].ranks], timeout=100, healed=True) is None


def test_a_wrong_name_is_told_with_the_right_ones(ranks: dict[int, World]) -> None:
    with pytest.raises(ValueError, match="no patient 'no_such'; there are skipped_collective, "):
        run_on_our_ranks("no_such", ranks[2])


PRINTS = """
import sys
print("step 1", flush=True)
print('''\\
Exception ignored in: <function File.__del__ at 0x7f74b497ee80>
Traceback (most recent call last):
  File "/usr/lib/python3.11/tempfile.py", line 450, in __del__
OSError: 5''', file=sys.stderr, flush=True)
raise ValueError("no digit")
"""


def test_what_ranks_print_is_folded(ranks: dict[int, World], capsys: pytest.CaptureFixture[str]) -> None:
    assert "ranks 0 and 1 raised ValueError: no digit" in str(run_on_our_ranks("dead_rank", ranks[2], program=PRINTS))
    printed, complaints = capsys.readouterr()
    folded = "  (… 4 lines that Python ignores: OSError: 5)"
    assert printed.splitlines() == [f"[rank {rank}] {line}" for rank in (0, 1) for line in (folded, "step 1")]
    assert complaints == "" and ranks[2].on_output is None
