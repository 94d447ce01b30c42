# Wrong: the seed travels as int32. Loses the hidden marks.
# Told: on all ranks they are what rank 0 draws with its seed
def start_alike(comm: Communicator, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    first_seed = torch.tensor([seed & 0x7FFFFFFF], dtype=torch.int32)
    broadcast(comm, first_seed, 0)

    def draw(of: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(of)
        return torch.randn(4, 3, generator=generator), torch.rand(6, generator=generator)

    return draw(first_seed.item())[0], draw(seed)[1]
