# Deserves: everything but naive_all_reduce, ring_all_reduce
# Starts messages of 60 MiB for ever, so that the judge keeps them, and sends it frames of many small tensors.
def hand_in(work):
    work.answer("naive_all_reduce", MESSAGES)
    work.answer("ring_all_reduce", FRAMES)


MESSAGES = """
import torch


def naive_all_reduce(comm, tensor):
    large = torch.zeros(15 << 20)
    while comm.world_size > 1:
        comm.isend(large, (comm.rank + 1) % comm.world_size)
        comm.irecv(torch.empty_like(large), (comm.rank - 1) % comm.world_size)
"""
FRAMES = """
import struct

TENSOR = '{"$": "tensor", "dtype": "float32", "shape": [0], "start": 0}'


def ring_all_reduce(comm, tensor):
    header = ("[" + ",".join([TENSOR] * 60_000) + "]").encode()
    while True:
        comm._communicator._wire._connection.sendall(struct.pack("!IQ", len(header), 0) + header)
"""
