# Right: behind two decorators, one of torch's and one of its own, and without a loop over ranks on the others.
import functools


def in_place(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        tensor = kwargs.get("tensor", args[-1])
        tensor.copy_(function(*args, **kwargs))

    return run


@torch.no_grad()
@in_place
def naive_all_reduce(comm, tensor):
    if comm.rank:
        comm.send(tensor, 0)
        return [answer := torch.empty_like(tensor), comm.recv(answer, 0)][0]
    boxes = [torch.empty_like(tensor) for _ in range(1, comm.world_size)]
    for src, box in enumerate(boxes, 1):
        comm.recv(box, src)
    total = functools.reduce(torch.add, boxes, tensor)
    [comm.send(total, dst) for dst in range(1, comm.world_size)]
    return total
