# Right: with a buffer for what comes in; it prints, which must cost nothing.
def copy_tensor(comm, tensor):
    if comm.rank == 0:
        works = [comm.isend(tensor.detach(), dst) for dst in range(1, comm.world_size)]
        for work in works:
            work.wait()
    else:
        incoming = torch.empty_like(tensor, requires_grad=False)
        comm.recv(incoming, 0)
        with torch.no_grad():
            tensor.copy_(incoming)


def replicate(comm, model):
    for name, parameter in model.named_parameters():
        print(name)
        copy_tensor(comm, parameter)
    for buffer in model.buffers():
        copy_tensor(comm, buffer)
