"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it."""

from distlib.grading.checks import check_all_gather, check_all_reduce, check_reduce_scatter
from distlib.grading.failure import CheckFailed
from distlib.grading.pattern_checks import check_broadcast, check_gather, check_reduce, check_scatter, check_shift
from distlib.grading.report import Report
from distlib.grading.student_communicator import StudentCommunicator

__all__ = [
    "CheckFailed",
    "Report",
    "StudentCommunicator",
    "check_all_gather",
    "check_all_reduce",
    "check_broadcast",
    "check_gather",
    "check_reduce",
    "check_reduce_scatter",
    "check_scatter",
    "check_shift",
]
