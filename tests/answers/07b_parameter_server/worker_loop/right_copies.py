# Right: receives into a tensor of its own, and copies.
def worker_loop(comm, server, parameters, compute, steps):
    incoming = torch.zeros_like(parameters)
    request = torch.zeros(1, dtype=torch.int64)
    step = 0
    while True:
        request[0] = PULL
        comm.send(request, server, REQUEST)
        comm.recv(incoming, server, PARAMETERS)
        parameters[:] = incoming
        if step == steps:
            break
        gradient = compute(step)
        request[0] = PUSH
        comm.send(request, server, REQUEST)
        comm.send(gradient.contiguous(), server, GRADIENT)
        step += 1
    request[0] = LEAVE
    comm.send(request, dst=server, tag=REQUEST)
