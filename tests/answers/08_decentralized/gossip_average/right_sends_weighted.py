# Right: the sender multiplies by the weight that the receiver has for it.
def gossip_average(comm, tensor, matrix, rounds):
    weights, me = matrix.tolist(), comm.rank
    for _ in range(rounds):
        sending, receiving = [], []
        for other in range(comm.world_size):
            if other != me and weights[other][me]:
                sending.append(comm.isend(tensor * weights[other][me], other))
            if other != me and weights[me][other]:
                buffer = torch.zeros_like(tensor)
                receiving.append((comm.irecv(buffer, other), buffer))
        parts = [tensor * weights[me][me]]
        for work, buffer in receiving:
            work.wait()
            parts.append(buffer)
        for work in sending:
            work.wait()
        tensor.copy_(torch.stack(parts).sum(dim=0))
