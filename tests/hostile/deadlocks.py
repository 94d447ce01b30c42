# Deserves: everything but naive_all_reduce
# Every rank waits for a message.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
def naive_all_reduce(comm, tensor):
    comm.recv(tensor, (comm.rank + 1) % comm.world_size)
"""
