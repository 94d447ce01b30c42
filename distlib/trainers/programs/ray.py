"""Ray Train: you hand over a function. Ray starts the workers, on any machine of its cluster."""

import ray
import torch
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch.utils.data import DataLoader

from distlib.trainers.same_task import BATCH, WideClassifier, finish, loss_of, sgd, training_set


def train() -> None:
    """What each worker does."""
    torch.manual_seed(0)
    model = WideClassifier()
    optimizer = sgd(model)
    loader = prepare_data_loader(DataLoader(training_set(), BATCH))
    ddp = prepare_model(model)

    for batch in loader:
        optimizer.zero_grad()
        loss = loss_of(ddp, batch)
        loss.backward()
        optimizer.step()

    finish(model)


ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, _node_ip_address="127.0.0.1")
TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2)).fit()
ray.shutdown()
