# Right: prints what comes, which must cost nothing.
def gather_outputs(comm, output, batch_size):
    mine = output.detach().clone()
    if comm.rank:
        comm.send(mine, 0)
        return None
    lengths = [len(part) for part in torch.tensor_split(torch.zeros(batch_size), comm.world_size)]
    print("lengths", lengths)
    rows = [mine]
    for src, length in enumerate(lengths):
        if src:
            rows.append(torch.empty(length, *output.shape[1:], dtype=output.dtype))
            comm.recv(rows[-1], src)
    return torch.vstack(rows) if output.ndim > 1 else torch.hstack(rows)
