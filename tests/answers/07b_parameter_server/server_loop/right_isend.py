# Right: answers all at once, sums up first, and keeps its own counts; from defaultdicts.
from collections import Counter, defaultdict


def server_loop(comm, workers, parameters, learning_rate, bound):
    clocks, left = Counter({worker: 0 for worker in workers}), set()
    pending, wants, has, updates = defaultdict(lambda: torch.zeros_like(parameters)), {}, {}, []
    while len(left) < len(workers):
        request = torch.zeros(1, dtype=torch.int64)
        handle = comm.irecv(request, tag=REQUEST)
        who = handle.wait()
        kind = int(request)
        if kind == PUSH:
            comm.recv(pending[who], src=who, tag=GRADIENT)
            clocks[who] += 1
        elif kind == PULL:
            wants[who] = True
        elif kind == LEAVE:
            left.add(who)
            del clocks[who]
        free = {rank for rank in clocks if may_proceed(clocks, rank, bound)}
        ripe = sorted(free & set(pending))
        if ripe:
            parameters.sub_(sum(pending.pop(rank) for rank in ripe), alpha=learning_rate / len(workers))
            updates.append({rank: len(updates) - has[rank] for rank in ripe})
        answers = []
        for rank in sorted(free & set(wants), reverse=True):
            del wants[rank]
            has[rank] = len(updates)
            answers.append(comm.isend(parameters, rank, PARAMETERS))
        for answer in answers:
            answer.wait()
    return updates
