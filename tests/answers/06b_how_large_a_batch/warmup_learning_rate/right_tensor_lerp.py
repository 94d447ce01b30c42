# Right: torch.lerp in float64.
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    print("step", step)
    rates = torch.tensor([1.0, batch_size / base_batch_size], dtype=torch.float64) * base_learning_rate
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    return torch.lerp(rates[0], rates[1], part).item()
