"""A small GPT, trained by data parallelism on any number of ranks: one file of plain torch, to read and to take home.

    python train.py                                           alone
    torchrun --nproc-per-node 4 train.py                      four ranks, one for each GPU, or on the processor
    distlib launch --ranks 4 train.py:on_rank                 on the course's ranks: a mistake is named by rank and line
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 torchrun --standalone --nproc-per-node 4 --max-restarts 3 train.py
        If a rank dies, all start again from the checkpoint. Without the variable, torch 2.13 tries to reach the dead.

Four rules make a training program distributed. The code refers to them by their numbers:
    (1)  Every rank begins with the same model: drawn from the same seed, or read from the checkpoint.
    (2)  The batch of a step depends on the number of the step alone, and each rank takes its part of it.
    (3)  Gradients are added up over the ranks while the backward pass is still running; then all take the same step.
    (4)  One rank writes the checkpoint, and replaces the last one only by a complete one.

So any number of ranks trains the same model, up to rounding, and a run that was interrupted ends as if it had not been.
The full edition, `distlib.capstone`, trains in nine ways; `distlib.training.ddp.plain` puts gradients into buckets.
Source of rule 3: S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB, 2020.
"""

import argparse
import os
import time
from pathlib import Path
from pydoc_data.topics import topics  # Python's own manual, as help("for") shows it

import torch
import torch.distributed as dist
from torch import nn


def read_options() -> argparse.Namespace:
    """Those of the command line: `python train.py --help` shows them."""
    parser = argparse.ArgumentParser(description="Train a small GPT on any number of ranks.")
    sizes = {"steps": 500, "every": 25, "batch": 32, "length": 64, "features": 128, "heads": 4, "layers": 4}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--text", help="a file in UTF-8; without it, the manual that Python has inside")
    parser.add_argument("--checkpoint", default="gpt.pt", help="a file: written, and if it is there, continued from")
    parser.add_argument("--backend", help="gloo, nccl, or the course's own, distlib")
    return parser.parse_args()


class GPT(nn.Module):
    """Tokens [batch, length] → scores of the token that comes next, [batch, length, vocabulary]."""

    def __init__(self, vocabulary: int, options: argparse.Namespace) -> None:
        super().__init__()
        features, heads = options.features, options.heads
        self.token, self.position = nn.Embedding(vocabulary, features), nn.Embedding(options.length, features)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(features, heads, 4 * features, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(options.layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(features), nn.Linear(features, vocabulary))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        later = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        for layer in self.layers:
            x = layer(x, src_mask=later, is_causal=True)
        return self.head(x)


def share_of_loss(model: nn.Module, text: torch.Tensor, step: int, options: argparse.Namespace) -> torch.Tensor:
    """(2) This rank's share of the mean loss of a step's batch: the shares of all ranks add up to the loss."""
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text) - options.length, (options.batch, 1), generator=generator)
    own = starts[dist.get_rank() :: dist.get_world_size()]  # every rank draws the whole batch, and takes its part
    pieces = text[(own + torch.arange(options.length + 1)).to(text.device)]
    scores, following = model(pieces[:, :-1]), pieces[:, 1:]
    total = nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten(), reduction="sum")
    return total / (options.batch * options.length)  # by the size of the whole batch, so gradients only need adding up


def add_up_gradients(model: nn.Module) -> list[dist.Work]:
    """(3) From now on each gradient is sent as soon as the backward pass has it. The list holds what is under way."""
    under_way = []

    def on_gradient(parameter: nn.Parameter) -> None:  # torch calls it in the same order on every rank
        under_way.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(on_gradient)
    return under_way


def read_checkpoint(path: str, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """(1) Rank 0 reads it for all ranks. Returns how many steps are done; 0 if there is no checkpoint yet."""
    found = dist.get_rank() == 0 and os.path.exists(path)
    kept = [torch.load(path, map_location="cpu", weights_only=True) if found else {"step": 0}]
    dist.broadcast_object_list(kept)
    if kept[0]["step"]:
        model.load_state_dict(kept[0]["model"])
        optimizer.load_state_dict(kept[0]["optimizer"])
    return kept[0]["step"]


def train(options: argparse.Namespace, device: torch.device) -> None:
    """What every rank does, once there is a process group."""
    rank, ranks, path = dist.get_rank(), dist.get_world_size(), options.checkpoint
    written = Path(options.text).read_text("utf-8") if options.text else "\n".join(map(topics.get, sorted(topics)))
    number_of = {character: number for number, character in enumerate(sorted(set(written)))}
    text = torch.tensor([number_of[character] for character in written], device=device)
    text, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    torch.manual_seed(0)  # (1)
    model = GPT(len(number_of), options).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    first, start = read_checkpoint(path, model, optimizer), time.perf_counter()
    under_way = add_up_gradients(model)
    if rank == 0:
        count = sum(parameter.numel() for parameter in model.parameters())
        sent = 2 * (ranks - 1) / ranks * 4 * count / 1e6  # what a rank sends in a ring all-reduce of float32
        print(f"{count:,} parameters on {ranks} × {device.type}: {sent:.1f} MB per rank in a step", flush=True)

    for step in range(first + 1, options.steps + 1):
        optimizer.zero_grad()
        loss = share_of_loss(model, text, step, options)
        loss.backward()  # (3) begins an all-reduce for each parameter
        while under_way:
            under_way.pop().wait()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # the norm of the sum, so it is the same on every rank
        optimizer.step()
        if step % options.every == 0 or step == options.steps:
            sums = torch.stack([loss, share_of_loss(model, held_out, 0, options)]).detach()
            dist.all_reduce(sums)
            speed = (step - first) * options.batch * options.length / (time.perf_counter() - start)
            if rank == 0:
                print(f"step {step:5}  loss {sums[0]:.4f}  held out {sums[1]:.4f}  {speed:,.0f} tokens/s", flush=True)
                new = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(new, f"{path}.unfinished")
                os.replace(f"{path}.unfinished", path)  # (4)


def on_rank(comm) -> None:
    """For `distlib launch`: the same, on a rank of the course."""
    from distlib import torch_distributed

    with torch_distributed(comm):
        train(read_options(), comm.device)


if __name__ == "__main__":
    options, has_gpu = read_options(), torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if has_gpu else torch.device("cpu")
    if has_gpu:
        torch.cuda.set_device(device)
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}  # a group of one
    dist.init_process_group(options.backend or ("nccl" if has_gpu else "gloo"), **alone)
    train(options, device)
    dist.destroy_process_group()
