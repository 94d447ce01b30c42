# Right: batches of all workers together, filled up, of which every worker takes each num_workers-th sample.
def shard_input(dataset, num_workers, index, global_batch_size):
    if global_batch_size % num_workers:
        raise ValueError(f"{global_batch_size} samples for {num_workers} workers")
    if index not in range(num_workers):
        raise ValueError(f"worker {index} of {num_workers}")
    print("worker", index)

    def share(samples):
        number = tf.shape(samples)[0]
        missing = global_batch_size - number
        filling = tf.zeros(tf.concat([[missing], tf.shape(samples)[1:]], axis=0), samples.dtype)
        filled = tf.concat([samples, filling], axis=0)
        weights = tf.cast(tf.range(global_batch_size) < number, tf.float32)
        return filled[index::num_workers], weights[index::num_workers]

    return dataset.batch(global_batch_size).map(share)
