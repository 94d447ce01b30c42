# Deserves: everything
# Floods its output; the answer is right.
def hand_in(work):
    work.answer("naive_all_reduce", ANSWER)


ANSWER = """
def naive_all_reduce(comm, tensor):
    for _ in range(200):
        print("x" * 1_000_000)
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
