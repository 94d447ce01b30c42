# Wrong: torch.distributed does the work underneath. Loses all marks.
# Told: no message was seen
import os
import tempfile

import torch.distributed as dist


def ring_all_gather(comm, tensor):
    if not dist.is_initialized():
        path = f"{tempfile.gettempdir()}/store-{os.getppid()}-{comm.world_size}"
        store = dist.FileStore(path, comm.world_size)
        dist.init_process_group("gloo", store=store, rank=comm.rank, world_size=comm.world_size)
    for number, chunk in enumerate(torch.tensor_split(tensor.reshape(-1), comm.world_size)):
        dist.broadcast(chunk, number)
    dist.destroy_process_group()
