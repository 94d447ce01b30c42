# Right: a worker takes a block of each global batch; what is missing is made by gathering the first sample.
def shard_input(dataset, num_workers, index, global_batch_size):
    size, rest = divmod(global_batch_size, num_workers)
    if rest or not 0 <= index < num_workers:
        raise ValueError(f"global batch {global_batch_size}, worker {index}, workers {num_workers}")

    def block(samples):
        places = tf.range(index * size, (index + 1) * size)
        is_there = places < tf.shape(samples)[0]
        return tf.gather(samples, tf.where(is_there, places, 0)), tf.cast(is_there, tf.float32)

    return dataset.batch(global_batch_size).map(block)
