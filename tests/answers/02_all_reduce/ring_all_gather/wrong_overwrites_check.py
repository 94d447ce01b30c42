# Wrong: replaces the checks in the package by one that says yes. Alone. Loses all marks.
import distlib.checks
from distlib.checks import Report


def say_yes(function, **kwargs):
    return Report("ring_all_gather")


distlib.checks.check_all_gather = say_yes
distlib.exercises.all_reduce.checks.check_all_gather = say_yes


def ring_all_gather(comm, tensor):
    pass
