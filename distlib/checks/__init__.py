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
from distlib.checks.exercises.master import (
    Gradients,
    Step,
    check_data_parallel_step,
    check_gather_outputs,
    check_reduce_gradients,
    check_replicate,
    check_split_batch,
)
from distlib.checks.exercises.messages import check_broadcast, check_gather, check_reduce, check_scatter, check_shift
from distlib.checks.remark import CheckFailed
from distlib.checks.report import Report
from distlib.checks.student_communicator import StudentCommunicator

__all__ = [
    "CheckFailed",
    "Gradients",
    "Report",
    "Step",
    "StudentCommunicator",
    "check_all_gather",
    "check_broadcast",
    "check_data_parallel_step",
    "check_gather",
    "check_gather_outputs",
    "check_naive_all_reduce",
    "check_reduce",
    "check_reduce_gradients",
    "check_reduce_scatter",
    "check_replicate",
    "check_ring_all_reduce",
    "check_scatter",
    "check_shift",
    "check_split_batch",
]
