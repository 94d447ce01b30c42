"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it."""

from distlib.checks.remark import CheckFailed
from distlib.checks.student_communicator import StudentCommunicator
from distlib.grading.accumulation_checks import Pieces, check_accumulate_gradients
from distlib.grading.all_reduce_checks import (
    check_grid_all_reduce,
    check_halving_doubling_all_reduce,
    check_tree_all_reduce,
)
from distlib.grading.bucket_checks import check_assign_buckets
from distlib.grading.ddp_case import Training
from distlib.grading.ddp_checks import check_overlapped_ddp
from distlib.grading.gradient_checks import Gradients, check_average_gradients
from distlib.grading.local_sgd_checks import check_local_sgd_round
from distlib.grading.local_sgd_reference import Rounds
from distlib.grading.prediction_checks import check_choose_algorithm, check_predict_time
from distlib.grading.report import Report
from distlib.grading.return_checks import Example, check_returns
from distlib.grading.sampler_checks import check_sampler
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.warmup_checks import check_warmup_learning_rate

__all__ = [
    "CheckFailed",
    "Example",
    "Gradients",
    "Pieces",
    "Report",
    "Rounds",
    "ScenarioReport",
    "StudentCommunicator",
    "Training",
    "check_accumulate_gradients",
    "check_assign_buckets",
    "check_average_gradients",
    "check_choose_algorithm",
    "check_grid_all_reduce",
    "check_halving_doubling_all_reduce",
    "check_local_sgd_round",
    "check_overlapped_ddp",
    "check_predict_time",
    "check_returns",
    "check_sampler",
    "check_tree_all_reduce",
    "check_warmup_learning_rate",
]
