# Right: what is asked for next, as texts; both messages of a push begin after compute, and are waited for later.
def worker_loop(comm, server, parameters, compute, steps):
    kinds = {"pull": PULL, "push": PUSH, "leave": LEAVE}
    going, step = [], 0
    for word in ("pull push " * steps + "pull leave").split():
        gradient = compute(step).clone() if word == "push" else None
        going.append(comm.isend(torch.full((1,), kinds[word]), server, REQUEST))
        if word == "pull":
            comm.irecv(parameters, server, PARAMETERS).wait()
        elif word == "push":
            going.append(comm.isend(gradient, server, GRADIENT))
            step += 1
    while going:
        going.pop().wait()
