# Deserves: everything but ring_all_reduce
# Its cells tell nonsense, and an answer says "done" for another one, with the number of the judge's question.
def hand_in(work):
    work.insert(CELL, before="naive_all_reduce_visible")
    work.answer("ring_all_reduce", ANSWER)


CELL = """
import sys

wire = sys.stdout._wire
wire.send({"what": "statement", "cell": float("inf"), "number": 0, "line": 1, "question": wire.question})
wire.send({"what": "statement", "cell": 4, "number": 50, "line": 10**400, "question": wire.question})
wire.send({"what": "error", "kind": [], "text": {}, "question": wire.question})
wire.send({"what": "done", "value": {"naive_all_reduce": 5}, "question": wire.question})
"""
ANSWER = """
def ring_all_reduce(comm, tensor):
    wire = comm._communicator._wire
    for _ in range(3):
        wire.send({"what": "done", "value": {"result": None, "slips": []}, "question": wire.question})
"""
