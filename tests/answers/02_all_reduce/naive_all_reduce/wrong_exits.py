# Wrong: ends the rank's process. Loses all marks.
# Told: your function ends the whole process, with exit() or os._exit()
import os


def naive_all_reduce(comm, tensor):
    if comm.rank == comm.world_size - 1:
        os._exit(0)
    if comm.rank == 0:
        comm.recv(tensor, comm.world_size - 1)
