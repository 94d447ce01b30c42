# Wrong: sends PUSH, and then computes, while the server waits for the gradient. Loses all marks.
# Told: PUSH is sent after 0.00 s, but compute(0) returns after 0.50 s
def worker_loop(comm, server, parameters, compute, steps):
    for step in range(steps):
        comm.send(torch.tensor([PULL]), server, REQUEST)
        comm.recv(parameters, server, PARAMETERS)
        comm.send(torch.tensor([PUSH]), server, REQUEST)
        comm.send(compute(step), server, GRADIENT)
    comm.send(torch.tensor([PULL]), server, REQUEST)
    comm.recv(parameters, server, PARAMETERS)
    comm.send(torch.tensor([LEAVE]), server, REQUEST)
