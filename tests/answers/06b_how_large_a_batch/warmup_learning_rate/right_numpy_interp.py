# Right: numpy interpolates, and its own kind of number is returned.
import numpy as np


def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    full = np.float64(batch_size) / base_batch_size * base_learning_rate
    return np.interp(step, [0, warmup_steps], [base_learning_rate, full]) if warmup_steps else full
