# Wrong: gathers only the chunk of this rank: ring_all_gather must get the whole tensor. Loses all marks.
# Told: in the second half no message is as long as a chunk
def ring_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    ring_reduce_scatter(comm, tensor)
    chunk = torch.tensor_split(tensor.reshape(-1), comm.world_size)[comm.rank]
    ring_all_gather(comm, chunk)
