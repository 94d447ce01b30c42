# Wrong: int8 for the number of rows. Loses the hidden marks.
# Told: value cannot be converted to type int8_t without overflow
def train_epoch(comm: Communicator, weight: torch.Tensor, batches: Sequence[torch.Tensor], rate: float) -> int:
    steps = torch.tensor([len(batches)])
    all_reduce(comm, steps, ReduceOp.MAX)
    for step in range(steps.item()):
        batch = batches[step] if step < len(batches) else weight.new_zeros(0, len(weight))
        total = (weight - batch).sum(0)
        rows = torch.full((1,), len(batch), dtype=torch.int8)
        all_reduce(comm, total)
        all_reduce(comm, rows)
        weight -= rate * total / rows.item()
    return steps.item()
