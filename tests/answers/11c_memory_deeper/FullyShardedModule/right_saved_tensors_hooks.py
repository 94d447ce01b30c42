# Right: no FlatParameters; saved_tensors_hooks replace what torch notes of a parameter by its place
class FullyShardedModule(torch.nn.Module):
    def __init__(self, comm, module, units):
        super().__init__()
        self.comm, self.module, self.shards = comm, module, []
        for number, unit in enumerate(units):
            parameters = list(unit.parameters())
            shapes = [p.shape for p in parameters]
            flat = torch.cat([p.detach().flatten() for p in parameters])
            flat = torch.cat([flat, flat.new_zeros(-len(flat) % comm.world_size)])
            self.shards.append(torch.nn.Parameter(flat.view(comm.world_size, -1)[comm.rank].clone()))
            self.watch(unit, parameters, shapes, number)
            self.drop(parameters)

    def drop(self, parameters):
        for p in parameters:
            p.data = torch.empty(0, dtype=p.dtype)

    def whole(self, number):
        flat = self.shards[number].detach().repeat(self.comm.world_size)
        all_gather(self.comm, flat)
        return flat

    def fill(self, number, parameters, shapes):
        flat = self.whole(number)
        for p, shape in zip(parameters, shapes):
            p.data, flat = flat[: shape.numel()].view(shape), flat[shape.numel() :]

    def watch(self, unit, parameters, shapes, number):
        contexts = []

        def pack(tensor):
            for p in parameters:
                if tensor.untyped_storage().data_ptr() == p.data.untyped_storage().data_ptr():
                    return tensor.shape, tensor.stride(), tensor.storage_offset(), p
            return tensor

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            shape, stride, offset, p = packed
            return torch.as_strided(p.data, shape, stride, offset)

        def before(unit, inputs):
            self.fill(number, parameters, shapes)
            contexts.append(torch.autograd.graph.saved_tensors_hooks(pack, unpack))
            contexts[-1].__enter__()

        def after(unit, inputs, output):
            contexts.pop().__exit__()
            self.drop(parameters)
            if output.requires_grad:
                output.register_hook(lambda gradient: self.fill(number, parameters, shapes))

        def ready(p):
            if all(p.grad is not None for p in parameters):
                self.reduce(number, parameters)

        unit.register_forward_pre_hook(before)
        unit.register_forward_hook(after)
        for p in parameters:
            p.register_post_accumulate_grad_hook(ready)

    def reduce(self, number, parameters):
        self.drop(parameters)
        pieces = [p.grad.flatten() for p in parameters]
        pad = -sum(map(len, pieces)) % self.comm.world_size
        flat = torch.cat([*pieces, torch.zeros(pad, dtype=pieces[0].dtype)])
        for p in parameters:
            p.grad = None
        del pieces
        reduce_scatter(self.comm, flat)
        mine = flat.view(self.comm.world_size, -1)[self.comm.rank] / self.comm.world_size
        shard = self.shards[number]
        shard.grad = mine if shard.grad is None else shard.grad.add_(mine)

    def forward(self, *inputs):
        return self.module(*inputs)
