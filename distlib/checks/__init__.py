"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it.

exercises/   the graded functions: cases, judges, usual mistakes in words; one file per exercise
rules/       what judges are made of: values, messages, sums
plays/       what runs on each rank around the student's function
task, places, case, seen, report      the engine: case ──► place ──► seen ──► remark, or on to the next
"""

from distlib.checks.exercises.large_batches import (
    Pieces,
    Rounds,
    check_accumulate_gradients,
    check_local_sgd_round,
    check_warmup_learning_rate,
)
from distlib.checks.exercises.master import (
    Gradients,
    Step,
    check_data_parallel_step,
    check_gather_outputs,
    check_reduce_gradients,
    check_replicate,
    check_split_batch,
)
from distlib.checks.remark import CheckFailed
from distlib.checks.report import Report
from distlib.checks.student_communicator import StudentCommunicator

__all__ = [
    "CheckFailed",
    "Gradients",
    "Pieces",
    "Report",
    "Rounds",
    "Step",
    "StudentCommunicator",
    "check_accumulate_gradients",
    "check_data_parallel_step",
    "check_gather_outputs",
    "check_local_sgd_round",
    "check_reduce_gradients",
    "check_replicate",
    "check_split_batch",
    "check_warmup_learning_rate",
]
