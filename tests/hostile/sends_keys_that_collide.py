# Deserves: everything but naive_all_reduce
# Hands back a dict whose 100,000 keys all have the same hash: Python takes minutes to make one of them.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import json
import struct
import sys


def naive_all_reduce(comm, tensor):
    wire = sys.stdout._wire
    items = [[k * ((1 << 61) - 1), 0] for k in range(100_000)]
    said = {"what": "done", "question": wire.question, "value": {"$": "dict", "items": items}}
    header = json.dumps(said).encode()
    wire._connection.sendall(struct.pack("!IQ", len(header), 0) + header)
"""
