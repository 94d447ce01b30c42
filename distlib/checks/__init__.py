"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it.

exercises/   the graded functions: cases, judges, usual mistakes in words; one file per exercise
rules/       what judges are made of: values, messages, sums
plays/       what runs on each rank around the student's function
task, places, case, seen, report      the engine: case ──► place ──► seen ──► remark, or on to the next
"""

from distlib.checks.exercises.all_reduce import (
    check_all_gather,
    check_naive_all_reduce,
    check_reduce_scatter,
    check_ring_all_reduce,
)
from distlib.checks.exercises.ddp import check_assign_buckets, check_average_gradients, check_sampler
from distlib.checks.exercises.large_batches import (
    Pieces,
    Rounds,
    check_accumulate_gradients,
    check_local_sgd_round,
    check_warmup_learning_rate,
)
from distlib.checks.exercises.master import (
    Step,
    check_data_parallel_step,
    check_gather_outputs,
    check_reduce_gradients,
    check_replicate,
    check_split_batch,
)
from distlib.checks.exercises.messages import check_broadcast, check_gather, check_reduce, check_scatter, check_shift
from distlib.checks.exercises.overlapped_ddp import check_overlapped_ddp, hidden_share_of
from distlib.checks.exercises.predictions import check_choose_algorithm, check_predict_time
from distlib.checks.exercises.trees_and_grids import (
    check_grid_all_reduce,
    check_halving_doubling_all_reduce,
    check_tree_all_reduce,
)
from distlib.checks.models import Gradients
from distlib.checks.remark import CheckFailed
from distlib.checks.report import Report
from distlib.checks.student_communicator import StudentCommunicator
from distlib.checks.training_cases import Training

__all__ = [
    "CheckFailed",
    "Gradients",
    "Pieces",
    "Report",
    "Rounds",
    "Step",
    "StudentCommunicator",
    "Training",
    "check_accumulate_gradients",
    "check_all_gather",
    "check_assign_buckets",
    "check_average_gradients",
    "check_broadcast",
    "check_choose_algorithm",
    "check_data_parallel_step",
    "check_gather",
    "check_gather_outputs",
    "check_grid_all_reduce",
    "check_halving_doubling_all_reduce",
    "check_local_sgd_round",
    "check_naive_all_reduce",
    "check_overlapped_ddp",
    "check_predict_time",
    "check_reduce",
    "check_reduce_gradients",
    "check_reduce_scatter",
    "check_replicate",
    "check_ring_all_reduce",
    "check_sampler",
    "check_scatter",
    "check_shift",
    "check_split_batch",
    "check_tree_all_reduce",
    "check_warmup_learning_rate",
    "hidden_share_of",
]
