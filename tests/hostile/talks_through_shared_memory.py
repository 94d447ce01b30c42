# Deserves: everything but naive_all_reduce
# Ranks add up through shared memory.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
from multiprocessing import shared_memory


def naive_all_reduce(comm, tensor):
    block = shared_memory.SharedMemory("all-reduce", create=comm.rank == 0, size=10_000)
    block.buf[comm.rank] = int(tensor.sum())
    tensor.fill_(sum(block.buf[rank] for rank in range(comm.world_size)))
"""
