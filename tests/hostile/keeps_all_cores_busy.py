# Deserves: everything but naive_all_reduce, ring_all_reduce
# Starts threads that multiply matrices for ever, on every rank, and answers neither function.
def hand_in(work):
    work.insert(CELL, before="naive_all_reduce_visible")
    for name in ("naive_all_reduce", "ring_all_reduce"):
        work.spoil(name)


CELL = """
import threading

import torch

large = torch.ones(400, 400)


def multiply():
    while True:
        large @ large


for _ in range(20):
    threading.Thread(target=multiply, daemon=True).start()
"""
