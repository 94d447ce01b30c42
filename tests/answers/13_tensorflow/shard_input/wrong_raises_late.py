# Wrong: looks at the numbers when the data set is read. Loses all marks.
# Told: Look at the numbers first
def shard_input(dataset: tf.data.Dataset, num_workers: int, index: int, global_batch_size: int) -> tf.data.Dataset:
    size = global_batch_size // num_workers
    spec = dataset.element_spec

    def batches():
        if global_batch_size % num_workers:
            raise ValueError(f"{global_batch_size} does not divide by {num_workers}")
        if not 0 <= index < num_workers:
            raise ValueError(f"no worker {index} of {num_workers}")
        for batch in dataset.batch(global_batch_size).as_numpy_iterator():
            filled = np.zeros((global_batch_size, *batch.shape[1:]), batch.dtype)
            filled[: len(batch)] = batch
            weights = (np.arange(global_batch_size) < len(batch)).astype(np.float32)
            yield filled[index::num_workers], weights[index::num_workers]

    signature = (tf.TensorSpec([size, *spec.shape], spec.dtype), tf.TensorSpec([size], tf.float32))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)
