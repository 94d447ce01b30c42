# Right: a list of what is to be done; takes the answer from anyone, there is only one that sends.
def worker_loop(comm, server, parameters, compute, steps):
    for step, request in enumerate([PULL, PUSH] * steps + [PULL, LEAVE]):
        gradient = compute(step // 2) if request == PUSH else None
        comm.send(torch.as_tensor([request], dtype=torch.long), server, REQUEST)
        if request == PULL:
            comm.recv(parameters, tag=PARAMETERS)
        elif request == PUSH:
            comm.send(gradient, server, GRADIENT)
