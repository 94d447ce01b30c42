# Wrong: believes that all models are equal. Loses all marks.
# Told: this is still the rank's own tensor
def replicate(comm, model):
    comm.barrier()
