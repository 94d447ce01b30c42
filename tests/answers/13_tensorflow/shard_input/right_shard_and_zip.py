# Right: shards, adds empty batches without end, and stops with the global batches.
def shard_input(dataset: tf.data.Dataset, num_workers: int, index: int, global_batch_size: int) -> tf.data.Dataset:
    if num_workers <= 0 or index < 0 or index >= num_workers:
        raise ValueError(f"index {index}, num_workers {num_workers}")
    if global_batch_size % num_workers:
        raise ValueError(f"global_batch_size {global_batch_size}, num_workers {num_workers}")
    size = global_batch_size // num_workers
    spec = dataset.element_spec
    shape = [0] + [1 if n is None else n for n in spec.shape]

    def fill(samples, some):
        missing = size - tf.shape(samples)[0]
        fillers = tf.repeat(tf.zeros_like(some[:1]), missing, axis=0)
        samples = tf.cond(missing < size, lambda: tf.concat([samples, fillers], 0), lambda: fillers)
        weights = tf.sequence_mask(size - missing, size, tf.float32)
        return samples, weights

    mine = dataset.shard(num_workers, index).batch(size)
    nothing = tf.data.Dataset.from_tensors(tf.zeros(shape, spec.dtype)).repeat()
    steps = dataset.batch(global_batch_size)
    return tf.data.Dataset.zip((mine.concatenate(nothing), steps)).map(fill)
