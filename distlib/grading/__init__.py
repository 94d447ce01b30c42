"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it."""

from distlib.checks.remark import CheckFailed
from distlib.checks.student_communicator import StudentCommunicator
from distlib.grading.all_reduce_checks import (
    check_grid_all_reduce,
    check_halving_doubling_all_reduce,
    check_tree_all_reduce,
)
from distlib.grading.pattern_checks import check_broadcast, check_gather, check_reduce, check_scatter, check_shift
from distlib.grading.prediction_checks import check_choose_algorithm, check_predict_time
from distlib.grading.report import Report
from distlib.grading.return_checks import Example, check_returns
from distlib.grading.scenario_report import ScenarioReport

__all__ = [
    "CheckFailed",
    "Example",
    "Report",
    "ScenarioReport",
    "StudentCommunicator",
    "check_broadcast",
    "check_choose_algorithm",
    "check_gather",
    "check_grid_all_reduce",
    "check_halving_doubling_all_reduce",
    "check_predict_time",
    "check_reduce",
    "check_returns",
    "check_scatter",
    "check_shift",
    "check_tree_all_reduce",
]
