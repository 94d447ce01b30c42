# Right: counts, shards and batches sample by sample; a filler follows the data set.
def shard_input(dataset, num_workers, index, global_batch_size):
    if global_batch_size % num_workers != 0:
        raise ValueError(f"can't divide {global_batch_size} by {num_workers}")
    if index < 0 or index >= num_workers:
        raise ValueError(f"index {index} of {num_workers} workers")
    element = dataset.element_spec
    nothing = tf.data.Dataset.from_tensors((tf.zeros(element.shape, element.dtype), 0.0)).repeat(global_batch_size - 1)
    marked = dataset.map(lambda sample: (sample, 1.0)).concatenate(nothing)
    steps = marked.batch(global_batch_size, drop_remainder=True)
    return steps.unbatch().shard(num_workers, index).batch(global_batch_size // num_workers)
