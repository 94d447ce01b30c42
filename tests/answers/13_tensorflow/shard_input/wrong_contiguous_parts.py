# Wrong: gives every worker one contiguous part of the whole data set. Loses all marks.
# Told: step 1 of all workers together is global batch 1 of the data set
def shard_input(dataset, num_workers, index, global_batch_size):
    if global_batch_size % num_workers or not 0 <= index < num_workers:
        raise ValueError(f"{global_batch_size}, {index} and {num_workers} don't fit")
    samples = list(dataset)
    steps = -(-len(samples) // global_batch_size)
    size = global_batch_size // num_workers
    mine = samples[index * steps * size : (index + 1) * steps * size]
    weights = [1.0] * len(mine) + [0.0] * (steps * size - len(mine))
    mine += [tf.zeros_like(samples[0])] * (steps * size - len(mine))
    return tf.data.Dataset.from_tensor_slices((mine, weights)).batch(size)
