# Deserves: everything but naive_all_reduce
# Reads from address 0.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import ctypes


def naive_all_reduce(comm, tensor):
    ctypes.string_at(0)
"""
