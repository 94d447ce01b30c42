# Right: agrees on the numbers, pads, and cuts.
def gather_predictions(comm, predictions):
    numbers = torch.zeros(comm.world_size, dtype=torch.int64)
    numbers[comm.rank] = len(predictions)
    all_gather(comm, numbers)
    longest = int(numbers.max())
    everyone = torch.zeros(comm.world_size, longest, dtype=predictions.dtype)
    everyone[comm.rank, : len(predictions)] = predictions
    all_gather(comm, everyone)
    parts = [everyone[rank, : int(numbers[rank])] for rank in range(comm.world_size)]
    return torch.cat(parts)
