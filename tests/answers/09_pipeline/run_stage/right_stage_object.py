# Right: an object per microbatch; sends the output with its history, and other tags for gradients.
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    class Microbatch:
        def __init__(self, number):
            self.number, self.weight = number, shapes[number][0] / sum(shape[0] for shape in shapes)

        def forward(self):
            self.x = torch.empty(torch.Size(shapes[self.number]), dtype=torch.float64)
            if comm.rank == 0:
                self.x.copy_(inputs[self.number])
            else:
                comm.recv(self.x, comm.rank - 1, tag=2 * self.number)
            self.y = module(self.x.requires_grad_())
            if comm.rank < comm.world_size - 1:
                handles.append(comm.isend(self.y, comm.rank + 1, tag=2 * self.number))
                return 0.0
            self.y = self.weight * loss_function(self.y, targets[self.number])
            return self.y.item()

        def backward(self):
            gradient = torch.ones_like(self.y)
            if comm.rank < comm.world_size - 1:
                comm.recv(gradient, comm.rank + 1, tag=2 * self.number + 1)
            self.y.backward(gradient)
            if comm.rank > 0:
                handles.append(comm.isend(self.x.grad.clone(), comm.rank - 1, tag=2 * self.number + 1))

    handles, there, loss = [], {}, 0.0
    for kind, i in map(read_action, actions):
        if kind == "F":
            there[i] = Microbatch(i)
            loss += there[i].forward()
        else:
            there[i].backward()
            del there[i]
    [handle.wait() for handle in handles]
    return loss if comm.rank == comm.world_size - 1 else None
