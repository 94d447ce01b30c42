# Wrong: the root sends to everybody. Loses all marks.
# Told: Let every rank that has the tensor help
def broadcast(comm, tensor, root=0):
    if comm.rank != root:
        comm.recv(tensor, root)
    else:
        for dst in range(comm.world_size):
            if dst != root:
                comm.send(tensor, dst)
