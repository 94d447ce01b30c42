# Deserves: everything but naive_all_reduce
# Takes no time of the processor, and never ends.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import time


def naive_all_reduce(comm, tensor):
    time.sleep(86_400)
"""
