# Right: in turn to the ranks 1, 2, 3, … places further on; exchange where both directions are there.
def gossip_average(comm, tensor, matrix, rounds):
    size, me = comm.world_size, comm.rank
    for _ in range(rounds):
        total = tensor * float(matrix[me, me])
        for distance in range(1, size):
            dst, src, buffer = (me + distance) % size, (me - distance) % size, torch.empty_like(tensor)
            sends, receives = bool(matrix[dst, me]), bool(matrix[me, src])
            if sends and receives:
                comm.exchange(tensor, dst, buffer, src)
            elif sends:
                comm.send(tensor, dst)
            elif receives:
                comm.recv(buffer, src)
            if receives:
                total += float(matrix[me, src]) * buffer
        tensor.copy_(total)
