# Wrong: sends every number in a message of its own. Loses all marks.
# Told: every message pays for its latency
def replicate(comm, model):
    for tensor in [*model.parameters(), *model.buffers()]:
        for number in tensor.data.view(-1):
            if comm.rank == 0:
                for dst in range(1, comm.world_size):
                    comm.send(number, dst)
            else:
                comm.recv(number, 0)
