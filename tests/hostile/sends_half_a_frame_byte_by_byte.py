# Deserves: everything but naive_all_reduce
# Begins a frame while its cells are loaded, and in an answer, and sends a byte of it now and then.
def hand_in(work):
    work.insert(CELL, before="naive_all_reduce_visible")
    work.answer("naive_all_reduce", ANSWER)


CELL = """
import struct
import sys
import time

connection = sys.stdout._wire._connection
connection.sendall(struct.pack("!IQ", 4_000_000, 0))
while True:
    connection.sendall(b"x")
"""
ANSWER = """
import struct
import time


def naive_all_reduce(comm, tensor):
    connection = comm._communicator._wire._connection
    connection.sendall(struct.pack("!IQ", 2, 60_000_000) + b"[]")
    while True:
        connection.sendall(b"x")
"""
