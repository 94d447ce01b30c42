# Deserves: everything
# Right, and noisy: a warning, stderr through Python and through the file descriptor.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
import os
import sys
import warnings


def naive_all_reduce(comm, tensor):
    warnings.warn("this is slow", stacklevel=1)
    print("working", file=sys.stderr)
    os.write(2, b"more")
    if comm.rank != 0:
        comm.send(tensor, dst=0)
        comm.recv(tensor, src=0)
        return
    incoming = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        tensor += incoming
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)
"""
