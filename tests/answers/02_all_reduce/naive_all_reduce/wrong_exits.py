# Wrong: ends the rank's process. Loses all marks.
# Told: exit() or os._exit() in your function. Just return: the process belongs to the world.
import os


def naive_all_reduce(comm, tensor):
    if comm.rank == comm.world_size - 1:
        os._exit(0)
    if comm.rank == 0:
        comm.recv(tensor, comm.world_size - 1)
