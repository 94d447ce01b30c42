# Wrong: replaces the checks by one that says yes. Alone. Loses all marks.
import distlib.checks


def say_yes(*args, **kwargs):
    return None


check_naive_all_reduce = say_yes
distlib.checks.check_naive_all_reduce = say_yes
distlib.exercises.all_reduce.checks.check_naive_all_reduce = say_yes


def naive_all_reduce(comm, tensor):
    pass
