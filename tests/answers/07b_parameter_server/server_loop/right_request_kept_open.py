# Right: begins to receive the next request before it serves this one; answers in order of rank.
def server_loop(comm, workers, parameters, learning_rate, bound):
    clocks = {worker: 0 for worker in workers}
    waiting, pending, sent, updates = set(), {}, {}, []

    def listen():
        box = torch.empty(1, dtype=torch.int64)
        return box, comm.irecv(box, tag=REQUEST)

    box, work = listen()
    while True:
        worker = work.wait()
        what = box.item()
        if what == PUSH:
            pending[worker] = torch.zeros_like(parameters)
            comm.recv(pending[worker], worker, GRADIENT)
            clocks[worker] += 1
        elif what == PULL:
            waiting.add(worker)
        else:
            clocks.pop(worker)
            if not clocks:
                return updates
        box, work = listen()
        if ready := {w for w in pending if may_proceed(clocks, w, bound)}:
            updates.append({w: len(updates) - sent[w] for w in ready})
            for w in ready:
                parameters.add_(pending.pop(w), alpha=-learning_rate / len(workers))
        for w in sorted(waiting):
            if may_proceed(clocks, w, bound):
                waiting.discard(w)
                sent[w] = len(updates)
                comm.send(parameters, w, PARAMETERS)
