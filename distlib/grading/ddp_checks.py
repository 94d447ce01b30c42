"""The check of OverlappedDDP: what it computes, and when it sends what.

values      the same as in a single process, after every step and on every rank (`ddp_values`)
messages    one all-reduce per bucket, begun as soon as its gradients are there, nothing in no_sync (`ddp_messages`)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from distlib.checks.remark import Remark
from distlib.grading.checks import name_of
from distlib.grading.ddp_case import Training, make_case
from distlib.grading.ddp_messages import judge_messages
from distlib.grading.ddp_values import judge_values
from distlib.grading.scenario_case import ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

_CAUSES = (
    ("'NoneType' object has no attribute 'wait'", "all_reduce only returns a handle with async_op=True. Without it, it "
     "waits at once, in the middle of the backward pass."),
    ("'NoneType' object has no attribute", "a parameter may have no gradient: its .grad is None. It counts as zeros."),
    ("doesn't require gradient", "leave out the parameters that need no gradient: they get no hook, and are in no "
     "bucket."),
    ("has no attribute 'no_sync'", "the class needs a method no_sync, for `with parallel.no_sync():`."),
    ("context manager", "no_sync is used as `with parallel.no_sync():`. Put @contextlib.contextmanager above it."),
    ("has no 'start'", "for all_reduce with async_op=True, use the name all_reduce as the set-up cell has imported it. "
     "A class of the library does not count."),
    *((sign, "ranks began their all-reduces in different orders, or some rank left one out. On every rank all buckets "
       "begin, in the same order: one that is complete early waits for those before it, and finish begins the rest.")
      for sign in ("receives into", "have to make the same collective calls", "waits to")),
)  # fmt: skip
_HELPERS = ("all_reduce", "broadcast", "assign_buckets")


def check_overlapped_ddp(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    trainings: Sequence[Training],
    seed: int = 1,
) -> ScenarioReport:
    """Check the class `function(comm, module, bucket_bytes=, first_bucket_bytes=)`: some steps of training with it.

    Supplied are all_reduce, broadcast and assign_buckets. In virtual time, computing the gradients of a layer takes
    10 ms, and the all-reduce of an average bucket 8 ms.

    Args:
        world_sizes: numbers of ranks.
        trainings: what is trained; each on every number of ranks.
        seed: of weights and batches.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name = name_of(function, ("comm", "module", "bucket_bytes=250", "first_bucket_bytes=100"))
    seed = seed_for(function, seed)
    cases = [
        make_case(name, training, size, seed + number)
        for number, training in enumerate(trainings)
        for size in world_sizes
    ]
    return run_scenarios(
        function, name, cases, _judge_values, judge_times=_judge_messages, helpers=_HELPERS, causes=_CAUSES
    )


def _judge_values(case: ScenarioCase, scene: Scene) -> Remark | None:
    return judge_values(case.expected, scene.results)


def _judge_messages(case: ScenarioCase, scene: Scene) -> Remark | None:
    return judge_messages(case.expected, scene)
