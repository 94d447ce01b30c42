# Right: counters, a hook made for each parameter, and buffers that are made once.
class OverlappedDDP(torch.nn.Module):
    def __init__(self, comm, module, bucket_bytes=25 * 2**20, first_bucket_bytes=2**20):
        super().__init__()
        self.comm, self.module, self.active, self.next = comm, module, True, 0
        with torch.no_grad():
            for tensor in module.state_dict().values():
                broadcast(comm, tensor)
        trained = [p for p in module.parameters() if p.requires_grad]
        self.buckets, self.flats, self.counts, self.works = [], [], [], []
        for number, indices in enumerate(assign_buckets([p.nbytes for p in trained], bucket_bytes, first_bucket_bytes)):
            bucket = [trained[index] for index in indices]
            self.buckets.append(bucket)
            self.flats.append(torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype))
            self.counts.append(0)
            for p in bucket:
                p.register_post_accumulate_grad_hook(lambda p, number=number: self.ready(number))

    def forward(self, *inputs, **named):
        if self.training and self.active:
            [broadcast(self.comm, buffer) for buffer in self.module.buffers()]
        return self.module(*inputs, **named)

    def ready(self, number):
        if self.active:
            self.counts[number] += 1
            while self.next < len(self.buckets) and self.counts[self.next] == len(self.buckets[self.next]):
                self.send()

    def send(self):
        bucket, flat = self.buckets[self.next], self.flats[self.next]
        for p, place in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
            place.zero_() if p.grad is None else place.copy_(p.grad.reshape(-1))
        self.works.append(all_reduce(self.comm, flat, async_op=True))
        self.next += 1

    def finish(self):
        while self.next < len(self.buckets):
            self.send()
        for bucket, flat, work in zip(self.buckets, self.flats, self.works, strict=True):
            work.wait()
            for p, place in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                p.grad = (place / self.comm.world_size).view_as(p)
        self.next, self.works, self.counts = 0, [], [0] * len(self.buckets)

    def no_sync(self):
        return _Quiet(self)


class _Quiet:
    def __init__(self, parallel):
        self.parallel = parallel

    def __enter__(self):
        self.parallel.active = False

    def __exit__(self, *error):
        self.parallel.active = True
