# Right: with two functions of its own; it prints to both streams and warns, which must cost nothing.
import sys
import warnings


def collect(comm, tensor):
    buffer = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(buffer, src)
        tensor += buffer


def hand_out(comm, tensor):
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)


def naive_all_reduce(comm, tensor):
    print("rank", comm.rank, "begins")
    print("a line on stderr", file=sys.stderr)
    warnings.warn("this is only a warning")
    if comm.rank == 0:
        collect(comm, tensor)
        hand_out(comm, tensor)
    else:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
