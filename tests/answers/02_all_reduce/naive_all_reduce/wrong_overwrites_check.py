# Wrong: replaces the checks by one that says yes. Alone. Loses all marks.
import distlib.grading


def say_yes(*args, **kwargs):
    return None


check_all_reduce = say_yes
distlib.grading.check_all_reduce = say_yes
distlib.grading.checks.check_all_reduce = say_yes


def naive_all_reduce(comm, tensor):
    pass
