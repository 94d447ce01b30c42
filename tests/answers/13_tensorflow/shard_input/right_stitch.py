# Right: a class; fills up with the first sample, by dynamic_stitch.
class _Sharder:
    def __init__(self, num_workers, index, size, spec):
        self.num_workers, self.index, self.size, self.spec = num_workers, index, size, spec

    def fill(self, values):
        rows = tf.range(tf.shape(values)[0])
        missing = tf.repeat(values[:1], self.size - tf.size(rows), axis=0)
        return tf.dynamic_stitch([rows, tf.range(tf.size(rows), self.size)], [values, missing])

    def mine(self, values, shape):
        cut = tf.reshape(values, tf.concat([[-1, self.num_workers], tf.shape(values)[1:]], 0))[:, self.index]
        return tf.ensure_shape(cut, [self.size // self.num_workers, *shape])

    def __call__(self, values):
        ones = tf.ones(tf.shape(values)[:1])
        weights = tf.concat([ones, tf.zeros([self.size - tf.size(ones)])], axis=0)
        return self.mine(self.fill(values), self.spec.shape), self.mine(weights, [])


def shard_input(dataset: tf.data.Dataset, num_workers: int, index: int, global_batch_size: int) -> tf.data.Dataset:
    if num_workers < 1 or index not in range(num_workers):
        raise ValueError(f"there are {num_workers} workers, and {index} is none of them")
    if global_batch_size % num_workers > 0:
        raise ValueError(f"{num_workers} workers cannot share {global_batch_size} samples")
    sharder = _Sharder(num_workers, index, global_batch_size, dataset.element_spec)
    return dataset.batch(global_batch_size).map(sharder).prefetch(1)
