# Deserves: everything but naive_all_reduce
# Sends itself the signal that can't be caught.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import os
import signal


def naive_all_reduce(comm, tensor):
    os.kill(os.getpid(), signal.SIGKILL)
"""
