# Right: every rank takes part in the sum, and rank 0 returns the mean.
def log_mean_loss(comm, loss):
    total = loss.clone()
    all_reduce(comm, total)
    if comm.rank == 0:
        return total.item() / comm.world_size
    return None
