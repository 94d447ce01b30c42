# Wrong: a bit of a uint8 for each rank. Loses the hidden marks.
# Told: the text names all ranks on which reading failed
def sum_of_files(comm: Communicator, read: Callable[[], torch.Tensor]) -> torch.Tensor:
    failed, total = torch.zeros(1, dtype=torch.uint8), None
    try:
        total = read()
    except OSError:
        failed += 1 << comm.rank
    all_reduce(comm, failed)
    mask = failed.item()
    if mask:
        ranks = [str(rank) for rank in range(8) if mask >> rank & 1]
        raise RuntimeError("reading failed on ranks " + " and ".join(ranks))
    total = total.clone()
    all_reduce(comm, total)
    return total
