# Deserves: everything but naive_all_reduce
# Writes 1 GB wherever it can, and goes on without an answer.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import os


def naive_all_reduce(comm, tensor):
    for folder in (os.getcwd(), "/tmp", "/dev/shm", os.path.expanduser("~")):
        try:
            with open(os.path.join(folder, "full"), "wb") as file:
                for _ in range(100):
                    file.write(bytes(10_000_000))
        except OSError:
            pass
"""
