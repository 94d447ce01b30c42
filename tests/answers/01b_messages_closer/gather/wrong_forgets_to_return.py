# Wrong: the root has the list, and does not return it. Loses all marks.
# Told: no rank returned anything; expected a list of tensors from the root
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
    else:
        gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
        gathered[root].copy_(tensor)
        for src in range(comm.world_size):
            if src != root:
                comm.recv(gathered[src], src)
