# Wrong: a generator, so that no line of it runs. Loses all marks.
# Told: no line of your function has run: with `yield` in it, or `async` before it
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        buffer = torch.empty_like(tensor)
        for src in range(1, comm.world_size):
            yield comm.recv(buffer, src)
            tensor += buffer
        for dst in range(1, comm.world_size):
            yield comm.send(tensor, dst)
    else:
        yield comm.send(tensor, 0)
        yield comm.recv(tensor, 0)
