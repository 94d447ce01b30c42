# Right: asks for the slowest itself; lists by position; three functions.
def server_loop(comm, workers, parameters, learning_rate, bound):
    INFINITE = 10**9
    clock, applied = [0] * len(workers), [0] * len(workers)
    kept, wants, version = [None] * len(workers), [False] * len(workers), [0] * len(workers)
    updates = []

    def is_free(k):
        return clock[k] < INFINITE and clock[k] - min(clock) <= bound

    def update():
        made = {}
        for k in range(len(workers)):
            if kept[k] is not None and is_free(k):
                parameters.copy_(parameters - kept[k] * (learning_rate / len(workers)))
                kept[k] = None
                made[workers[k]] = len(updates) - version[k]
        if made:
            updates.append(made)

    def answer():
        for k in range(len(workers)):
            if wants[k] and is_free(k):
                wants[k], version[k] = False, len(updates)
                comm.send(parameters.clone(), workers[k], PARAMETERS)

    request = torch.empty(1, dtype=torch.int64)
    while min(clock) < INFINITE:
        k = workers.index(comm.recv(request, None, REQUEST))
        if request[0] == PULL:
            wants[k] = True
        if request[0] == PUSH:
            kept[k] = torch.empty(parameters.shape, dtype=parameters.dtype)
            comm.recv(kept[k], workers[k], GRADIENT)
            clock[k] += 1
        if request[0] == LEAVE:
            clock[k] = INFINITE
        update()
        answer()
    return updates
