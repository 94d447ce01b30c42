# Right: starts to receive, sends, then waits; prints and warns.
def shift(comm, tensor):
    import warnings

    if comm.world_size > 1:
        print("rank", comm.rank, "shifts")
        warnings.warn("take care", stacklevel=1)
        incoming = torch.empty_like(tensor)
        receiving = comm.irecv(incoming, (comm.rank - 1) % comm.world_size)
        comm.send(tensor, (comm.rank + 1) % comm.world_size)
        receiving.wait()
        tensor.copy_(incoming)
