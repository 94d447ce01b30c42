# Deserves: everything but naive_all_reduce
# Recursion without an end, and with a high limit.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import sys


def naive_all_reduce(comm, tensor):
    sys.setrecursionlimit(10**9)
    naive_all_reduce(comm, tensor)
"""
