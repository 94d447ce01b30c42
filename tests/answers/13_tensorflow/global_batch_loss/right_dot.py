# Right: a scalar product, and the division before the sum.
def global_batch_loss(losses, weights, global_batch_size):
    return tf.tensordot(losses, tf.cast(weights, losses.dtype) / global_batch_size, axes=1)
