# Deserves: everything but naive_all_reduce
# Threads that never end, until no more can be started.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import threading


def naive_all_reduce(comm, tensor):
    for _ in range(10_000):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
