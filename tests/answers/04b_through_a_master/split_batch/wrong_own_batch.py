# Wrong: each rank cuts the tensor that it has brought itself. Loses all marks.
# Told: rows of this rank's own tensor
def split_batch(comm, batch):
    return batch.tensor_split(comm.world_size)[comm.rank]
