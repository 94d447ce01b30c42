# Right: begins to receive before it asks.
def worker_loop(comm, server, parameters, compute, steps):
    def ask(what):
        comm.send(torch.tensor([what]), server, REQUEST)

    def pull():
        coming = comm.irecv(parameters, server, PARAMETERS)
        ask(PULL)
        coming.wait()

    for step in range(steps):
        pull()
        gradient = compute(step)
        sent = comm.isend(gradient, server, tag=GRADIENT)
        ask(PUSH)
        sent.wait()
    pull()
    ask(LEAVE)
