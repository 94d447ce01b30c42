# Wrong: copies the buffers only at the start. Loses all marks.
# Told: computes with a buffer, running.mean, that is not rank 0's
class OverlappedDDP(torch.nn.Module):
    def __init__(self, comm, module, bucket_bytes=25 * 2**20, first_bucket_bytes=2**20):
        super().__init__()
        self.comm, self.module, self.synchronizes = comm, module, True
        for tensor in [*module.parameters(), *module.buffers()]:
            broadcast(comm, tensor.detach())
        trained = [p for p in module.parameters() if p.requires_grad]
        assigned = assign_buckets([p.nbytes for p in trained], bucket_bytes, first_bucket_bytes)
        self.buckets = [[trained[index] for index in indices] for indices in assigned]
        self.begin_anew()
        for p in trained:
            p.register_post_accumulate_grad_hook(self.on_gradient)

    def begin_anew(self):
        self.missing = [set(bucket) for bucket in self.buckets]
        self.begun = []

    def forward(self, *inputs):
        if self.training and self.synchronizes:
            for buffer in self.module.buffers():
                pass
        return self.module(*inputs)

    def on_gradient(self, parameter):
        if not self.synchronizes:
            return
        for missing in self.missing:
            missing.discard(parameter)
        while len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
            self.begin_next()

    def begin_next(self):
        bucket = self.buckets[len(self.begun)]
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
        self.begun.append((flat, all_reduce(self.comm, flat, async_op=True)))

    def finish(self):
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, work) in zip(self.buckets, self.begun, strict=True):
            work.wait()
            flat /= self.comm.world_size
            for p, piece in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad = piece.view_as(p)
        self.begin_anew()

    @contextlib.contextmanager
    def no_sync(self):
        self.synchronizes = False
        try:
            yield
        finally:
            self.synchronizes = True
