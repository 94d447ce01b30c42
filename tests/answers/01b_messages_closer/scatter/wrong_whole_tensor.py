# Wrong: the whole tensor goes to everyone. Loses all marks.
# Told: That is a broadcast
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    if comm.rank == root:
        for dst in range(comm.world_size):
            if dst != root:
                comm.send(tensor, dst)
        return chunks[root]
    whole = torch.empty_like(tensor)
    comm.recv(whole, root)
    return torch.tensor_split(whole.reshape(-1), comm.world_size)[comm.rank]
