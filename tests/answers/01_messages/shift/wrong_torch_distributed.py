# Wrong: torch.distributed instead of comm. Loses all marks.
# Told: torch.distributed is not set up on these ranks
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.empty_like(tensor)
    torch.distributed.barrier()
    tensor.copy_(incoming)
