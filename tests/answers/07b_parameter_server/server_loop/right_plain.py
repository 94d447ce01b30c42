# Right: as in the solution.
def server_loop(
    comm: Communicator, workers: list[int], parameters: torch.Tensor, learning_rate: float, bound: float
) -> list[dict[int, int]]:
    clocks = dict.fromkeys(workers, 0)  # of the workers that have not left
    gradients: dict[int, torch.Tensor] = {}  # not applied yet
    waiting: list[int] = []  # for parameters
    version_of: dict[int, int] = {}  # what each worker has got
    updates: list[dict[int, int]] = []
    request = torch.empty(1, dtype=torch.int64)

    while clocks:
        worker = comm.recv(request, tag=REQUEST)
        if request == PULL:
            waiting.append(worker)
        elif request == PUSH:
            gradients[worker] = torch.empty_like(parameters)
            comm.recv(gradients[worker], worker, GRADIENT)
            clocks[worker] += 1
        else:
            del clocks[worker]

        ripe = [each for each in gradients if may_proceed(clocks, each, bound)]
        for each in ripe:
            parameters -= learning_rate / len(workers) * gradients.pop(each)
        if ripe:
            updates.append({each: len(updates) - version_of[each] for each in ripe})

        for each in [each for each in waiting if may_proceed(clocks, each, bound)]:
            waiting.remove(each)
            version_of[each] = len(updates)
            comm.send(parameters, each, PARAMETERS)
    return updates
