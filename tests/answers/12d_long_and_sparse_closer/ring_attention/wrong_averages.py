# Wrong: takes the softmax of each block, and averages. Loses all marks.
# Told: each block was normalized by itself
def ring_attention(comm, queries, keys, values, causal):
    block, outputs = torch.stack([keys, values]), []
    for step in range(comm.world_size):
        scores = queries @ block[0].mT / queries.shape[-1] ** 0.5
        outputs.append(scores.softmax(-1) @ block[1])
        if step < comm.world_size - 1:
            incoming = torch.empty_like(block)
            comm.exchange(block, (comm.rank + 1) % comm.world_size, incoming, (comm.rank - 1) % comm.world_size)
            block = incoming
    return sum(outputs) / len(outputs)
