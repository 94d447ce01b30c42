# Wrong: the master receives one message less than is sent. Loses all marks.
# Told: a message was sent that nobody received
def naive_all_reduce(comm, tensor):
    if comm.rank == 0:
        buffer = torch.empty_like(tensor)
        for src in range(1, comm.world_size - 1):
            comm.recv(buffer, src)
            tensor += buffer
        for dst in range(1, comm.world_size):
            comm.send(tensor, dst)
    else:
        work = comm.isend(tensor.clone(), 0)
        comm.recv(tensor, 0)
