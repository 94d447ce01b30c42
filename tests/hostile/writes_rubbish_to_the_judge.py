# Deserves: everything but naive_all_reduce
# Writes 10 MB that are no frame.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import os


def naive_all_reduce(comm, tensor):
    for fd in range(3, 64):
        try:
            os.write(fd, b"\\xff" * 10_000_000)
        except OSError:
            pass
"""
