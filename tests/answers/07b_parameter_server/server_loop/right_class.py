# Right: a class that knows all, and a match statement.
class Server:
    def __init__(self, comm, workers, parameters, rate, bound):
        self.comm, self.parameters, self.rate, self.bound = comm, parameters, rate / len(workers), bound
        self.clocks = {worker: 0 for worker in workers}
        self.queue, self.asking, self.versions, self.updates = [], set(), {}, []

    def free(self, worker):
        return worker in self.clocks and may_proceed(self.clocks, worker, self.bound)

    def take(self):
        request = torch.tensor([-1])
        worker = self.comm.recv(request, tag=REQUEST)
        match request.item():
            case 0:
                self.asking |= {worker}
            case 1:
                gradient = self.parameters * 0
                self.comm.recv(gradient, worker, tag=GRADIENT)
                self.queue.append((worker, gradient))
                self.clocks[worker] += 1
            case 2:
                self.clocks.pop(worker)

    def go_on(self):
        ripe = [(worker, gradient) for worker, gradient in self.queue if self.free(worker)]
        self.queue = [(worker, gradient) for worker, gradient in self.queue if not self.free(worker)]
        for _, gradient in ripe:
            self.parameters -= self.rate * gradient
        if ripe:
            self.updates.append({worker: len(self.updates) - self.versions[worker] for worker, _ in ripe})
        for worker in filter(self.free, list(self.asking)):
            self.asking.remove(worker)
            self.versions[worker] = len(self.updates)
            self.comm.send(self.parameters, worker, tag=PARAMETERS)


def server_loop(comm, workers, parameters, learning_rate, bound):
    server = Server(comm, workers, parameters, learning_rate, bound)
    while server.clocks:
        server.take()
        server.go_on()
    return server.updates
