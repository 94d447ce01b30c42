"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it."""

from distlib.checks.remark import CheckFailed
from distlib.checks.student_communicator import StudentCommunicator
from distlib.grading.report import Report
from distlib.grading.return_checks import Example, check_returns
from distlib.grading.scenario_report import ScenarioReport

__all__ = ["CheckFailed", "Example", "Report", "ScenarioReport", "StudentCommunicator", "check_returns"]
