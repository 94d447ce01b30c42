# Right: sends rows to rank 0 alone, with zeros so that all ranks send equally many
class Collector:
    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def whole(self, tensor):
        if not isinstance(tensor, torch.distributed.tensor.DTensor):
            return tensor.clone()
        rows = -(-tensor.shape[0] // self.size)
        local = tensor.to_local().detach()
        own = local.new_zeros(rows, *tensor.shape[1:])
        own[: len(local)] = local
        pieces = [torch.empty_like(own) for _ in range(self.size)] if self.rank == 0 else None
        dist.gather(own, pieces, dst=0)
        return torch.cat(pieces)[: tensor.shape[0]].clone() if self.rank == 0 else None


def whole_state(model, optimizer):
    collect = Collector().whole
    weights = {name: collect(tensor) for name, tensor in model.state_dict().items()}
    states = get_optimizer_state_dict(model, optimizer)
    for name, moments in states["state"].items():
        states["state"][name] = {key: collect(value) for key, value in moments.items()}
    return {"model": weights, "optimizer": states} if dist.get_rank() == 0 else {}
