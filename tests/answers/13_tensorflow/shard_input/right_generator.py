# Right: a generator in Python.
def shard_input(dataset, num_workers, index, global_batch_size):
    if global_batch_size % num_workers:
        raise ValueError(f"{global_batch_size} / {num_workers} is not whole")
    if not 0 <= index < num_workers:
        raise ValueError(f"0 <= {index} < {num_workers} is false")
    size, spec = global_batch_size // num_workers, dataset.element_spec

    def batches():
        for batch in dataset.batch(global_batch_size).as_numpy_iterator():
            mine = batch[index * size : (index + 1) * size]
            samples = np.full((size, *batch.shape[1:]), 7, batch.dtype)
            samples[: len(mine)] = mine
            yield samples, np.float32(np.arange(size) < len(mine))

    signature = (tf.TensorSpec((size, *spec.shape), spec.dtype), tf.TensorSpec((size,), tf.float32))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)
