# Right: an object with __call__; a message goes out by isend while the next one comes.
class Shift:
    def __call__(self, comm, tensor):
        ring = [rank for rank in range(comm.world_size) if comm.world_size > 1]
        for place in ring[comm.rank : comm.rank + 1]:
            going = comm.isend(tensor.clone(), ring[(place + 1) % len(ring)])
            comm.recv(tensor, ring[place - 1])
            going.wait()


shift = Shift()
