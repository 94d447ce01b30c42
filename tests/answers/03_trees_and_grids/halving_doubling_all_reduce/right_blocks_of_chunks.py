# Right: cuts the tensor into chunks first; a half is half of the chunks. It prints.
def halving_doubling_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    core = 1
    while 2 * core <= size:
        core *= 2
    print("of", size, "ranks", core, "halve and double")
    flat = tensor.flatten()
    if rank >= core:
        comm.send(flat, rank - core)
        comm.recv(flat, rank - core)
    else:
        if rank + core < size:
            buffer = torch.empty_like(flat)
            comm.recv(buffer, rank + core)
            flat += buffer
        starts = [0]
        for chunk in torch.tensor_split(flat, core):
            starts.append(starts[-1] + len(chunk))

        def block(of_rank, count):
            first = of_rank - of_rank % count
            return flat[starts[first] : starts[first + count]]

        distances = [core >> k for k in range(1, core.bit_length())]
        for distance in distances:
            partner = rank ^ distance
            mine = block(rank, distance)
            buffer = torch.empty_like(mine)
            comm.exchange(block(partner, distance), partner, buffer, partner)
            mine += buffer
        for distance in reversed(distances):
            partner = rank ^ distance
            comm.exchange(block(rank, distance), partner, block(partner, distance), partner)
        if rank + core < size:
            comm.send(flat, rank + core)
    tensor.copy_(flat.reshape(tensor.shape))
