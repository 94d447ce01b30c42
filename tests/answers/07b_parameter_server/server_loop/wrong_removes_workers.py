# Wrong: takes workers that have left out of the list that it was given. Loses all marks.
# Told: it has changed its argument workers
def server_loop(comm, workers, parameters, learning_rate, bound):
    number = len(workers)
    clocks, kept, waiting, versions, updates = dict.fromkeys(workers, 0), {}, [], {}, []
    request = torch.empty(1, dtype=torch.int64)
    while clocks:
        worker = comm.recv(request, tag=REQUEST)
        if request == PULL:
            waiting.append(worker)
        elif request == PUSH:
            kept[worker] = torch.empty_like(parameters)
            comm.recv(kept[worker], worker, GRADIENT)
            clocks[worker] += 1
        else:
            del clocks[worker]
            workers.remove(worker)
        ripe = [each for each in kept if may_proceed(clocks, each, bound)]
        for each in ripe:
            parameters -= learning_rate / number * kept.pop(each)
        if ripe:
            updates.append({each: len(updates) - versions[each] for each in ripe})
        for each in [each for each in waiting if may_proceed(clocks, each, bound)]:
            waiting.remove(each)
            versions[each] = len(updates)
            comm.send(parameters, each, PARAMETERS)
    return updates
