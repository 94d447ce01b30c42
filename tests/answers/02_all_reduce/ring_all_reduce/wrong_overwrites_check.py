# Wrong: replaces the checks by one that says yes. Alone. Loses all marks.
import distlib.checks


def check_ring_all_reduce(*args, **kwargs):
    print("ring_all_reduce: right in all 8 cases.")


distlib.checks.check_ring_all_reduce = check_ring_all_reduce


def ring_all_reduce(comm, tensor):
    pass
