# Right: keeps the normalized output and the logarithm of the sum of weights; isend and irecv.
def ring_attention(comm, queries, keys, values, causal):
    size, rank = comm.world_size, comm.rank
    block = torch.cat((keys, values), dim=-1)
    d = keys.shape[-1]
    output, log_weight = None, None
    for step in range(size):
        incoming, works = torch.empty_like(block), []
        if step < size - 1:
            works = [comm.isend(block, (rank + 1) % size, tag=step), comm.irecv(incoming, (rank - 1) % size, tag=step)]
        src = (rank - step) % size
        if not (causal and src > rank):
            scores = queries @ block[..., :d].mT / math.sqrt(d)
            if causal and src == rank:
                later = torch.arange(keys.shape[1])[None, :] > torch.arange(keys.shape[1])[:, None]
                scores[:, later] = -torch.inf
            new_log = scores.logsumexp(-1, keepdim=True)
            new_output = (scores - new_log).exp() @ block[..., d:]
            if output is None:
                output, log_weight = new_output, new_log
            else:
                both = torch.logaddexp(log_weight, new_log)
                output = output * (log_weight - both).exp() + new_output * (new_log - both).exp()
                log_weight = both
        for work in works:
            work.wait()
        block = incoming
    return output


import math  # noqa: E402
