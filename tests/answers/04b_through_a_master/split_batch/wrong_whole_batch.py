# Wrong: everybody gets the whole batch and cuts it. Loses all marks.
# Told: the whole batch goes to every rank
def split_batch(comm, batch):
    whole = batch.clone()
    if comm.rank == 0:
        for dst in range(1, comm.world_size):
            comm.send(whole, dst)
    else:
        comm.recv(whole, 0)
    return whole.tensor_split(comm.world_size)[comm.rank]
