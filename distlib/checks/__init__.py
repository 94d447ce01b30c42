"""Checks for exercises: they run a student's function on many ranks, and say like a tutor what is wrong with it.

exercises/   the graded functions: cases, judges, usual mistakes in words; one file per exercise
rules/       what judges are made of: values, messages, sums
plays/       what runs on each rank around the student's function
task, places, case, seen, report      the engine: case ──► place ──► seen ──► remark, or on to the next
"""

from distlib.checks.remark import CheckFailed
from distlib.checks.report import Report
from distlib.checks.student_communicator import StudentCommunicator

__all__ = ["CheckFailed", "Report", "StudentCommunicator"]
