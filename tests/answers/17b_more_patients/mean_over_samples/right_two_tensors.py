# Right: the sum and the number apart, each of its own dtype.
def mean_over_samples(comm, losses):
    total, number = torch.tensor(losses, dtype=torch.float64).sum(), torch.tensor(len(losses))
    all_reduce(comm, total)
    all_reduce(comm, number)
    return total.item() / number.item()
