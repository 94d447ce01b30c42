# Deserves: everything but naive_all_reduce
# Starts as many processes as it can.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import os
import time


def naive_all_reduce(comm, tensor):
    for _ in range(400):
        if os.fork() == 0:
            time.sleep(100)
            os._exit(0)
"""
