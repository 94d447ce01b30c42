# Right: begins all receives and sends, then waits for all; many wrong answers are a change to it.
def gossip_average(comm, tensor, matrix, rounds):
    me, others = comm.rank, [rank for rank in range(comm.world_size) if rank != comm.rank]
    sources = [rank for rank in others if matrix[me, rank] != 0]
    targets = [rank for rank in others if matrix[rank, me] != 0]
    for _ in range(rounds):
        buffers = [torch.empty_like(tensor) for _ in sources]
        works = [comm.irecv(buffer, source) for buffer, source in zip(buffers, sources)]
        works += [comm.isend(tensor, target) for target in targets]
        for work in works:
            work.wait()
        total = matrix[me, me].item() * tensor
        for buffer, source in zip(buffers, sources):
            total += matrix[me, source].item() * buffer
        tensor.copy_(total)
