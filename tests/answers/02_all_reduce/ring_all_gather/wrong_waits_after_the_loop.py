# Wrong: sends on a chunk before the irecv of it is done: wait() comes only after the loop. Loses all marks.
# Told: while an irecv into it is under way
def ring_all_gather(comm: Communicator, tensor: torch.Tensor) -> None:
    n = comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, n)
    handles = []
    for step in range(n - 1):
        handles.append(comm.irecv(chunks[(comm.rank - step - 1) % n], (comm.rank - 1) % n))
        handles.append(comm.isend(chunks[(comm.rank - step) % n], (comm.rank + 1) % n))
    for handle in handles:
        handle.wait()
    tensor.copy_(flat.view(tensor.shape))
