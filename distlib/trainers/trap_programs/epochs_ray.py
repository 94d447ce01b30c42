"""A loader that shuffles, two epochs. Is the order a new one in the second? Ray Train."""

import ray
from ray import train
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader
from torch.utils.data import DataLoader

from distlib.trainers.same_task import numbers, say


def look() -> None:
    """What each worker does."""
    loader = prepare_data_loader(DataLoader(numbers(), 4, shuffle=True))
    for epoch in range(2):
        first, *_ = [batch.tolist() for batch in loader]
        say(f"rank {train.get_context().get_world_rank()}, epoch {epoch}: {first} …")


ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, _node_ip_address="127.0.0.1")
TorchTrainer(look, scaling_config=ScalingConfig(num_workers=2)).fit()
ray.shutdown()
