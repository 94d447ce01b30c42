# Right: a class that counts squares.
class Squares:
    def __init__(self):
        self.total = torch.zeros((), dtype=torch.float64)

    def count(self, tensors):
        for tensor in tensors:
            self.total += torch.dot(tensor.flatten(), tensor.flatten())
        return self

    def over(self, comm):
        all_reduce(comm, self.total)
        return self

    @property
    def norm(self):
        return self.total.sqrt().item()


def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    norm = Squares().count(sharded).over(mesh["tp"]).count(replicated).over(mesh["pp"]).norm
    for gradient in (*sharded, *replicated) if norm > max_norm else ():
        gradient *= max_norm / norm
    return norm
