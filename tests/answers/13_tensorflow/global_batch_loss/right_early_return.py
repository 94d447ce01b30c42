# Right: 0 times nothing where there are no samples, which keeps the gradient; else a product of matrices.
class _Share:
    def __init__(self, size):
        self.size = size

    def __call__(self, losses, weights):
        if losses.shape[0] == 0:
            return tf.reduce_sum(losses) * 0
        row = tf.expand_dims(tf.cast(weights, losses.dtype), 0)
        column = tf.expand_dims(losses, 1)
        return tf.reshape(tf.linalg.matmul(row, column), []) / tf.cast(self.size, losses.dtype)


def global_batch_loss(losses: tf.Tensor, weights: tf.Tensor, global_batch_size: int) -> tf.Tensor:
    return _Share(global_batch_size)(losses, weights)
