# Right: a class for a bucket; divides before it sends; prints.
class Bucket:
    def __init__(self, parameters):
        self.parameters, self.ready, self.work = parameters, set(), None

    def begin(self, comm):
        pieces = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.parameters]
        self.flat = torch.cat([piece.reshape(-1) / comm.world_size for piece in pieces])
        self.work = all_reduce(comm, self.flat, async_op=True)

    def end(self):
        self.work.wait()
        start = 0
        for p in self.parameters:
            piece = self.flat[start : start + p.numel()].reshape(p.shape)
            start += p.numel()
            if p.grad is None:
                p.grad = piece.clone()
            else:
                p.grad.copy_(piece)
        self.ready, self.work = set(), None


class OverlappedDDP(torch.nn.Module):
    def __init__(self, comm, module, bucket_bytes=25 * 2**20, first_bucket_bytes=2**20):
        super().__init__()
        self.comm, self.module, self.quiet = comm, module, False
        for p in module.parameters():
            broadcast(comm, p.data)
        for b in module.buffers():
            broadcast(comm, b.data)
        trained = list(filter(lambda p: p.requires_grad, module.parameters()))
        sizes = [p.numel() * p.element_size() for p in trained]
        indices = assign_buckets(sizes, bucket_bytes, first_bucket_bytes)
        self.buckets = [Bucket([trained[i] for i in bucket]) for bucket in indices]
        print(f"rank {comm.rank}: {len(self.buckets)} buckets")
        for bucket in self.buckets:
            for p in bucket.parameters:
                p.register_post_accumulate_grad_hook(lambda p, bucket=bucket: self.note(p, bucket))

    def note(self, p, bucket):
        if self.quiet:
            return
        bucket.ready.add(p)
        for bucket in self.buckets:
            if bucket.work is None and len(bucket.ready) < len(bucket.parameters):
                break
            if bucket.work is None:
                bucket.begin(self.comm)

    def forward(self, *inputs):
        if not self.quiet and self.training:
            for b in self.module.buffers():
                broadcast(self.comm, b.data)
        return self.module(*inputs)

    def finish(self):
        for bucket in self.buckets:
            if bucket.work is None:
                bucket.begin(self.comm)
        for bucket in self.buckets:
            bucket.end()

    @contextlib.contextmanager
    def no_sync(self):
        self.quiet = True
        yield
        self.quiet = False
