# Right: a Python if on a tensor, which AutoGraph turns into a branch of the graph.
def global_batch_loss(losses, weights, global_batch_size):
    weights = tf.cast(weights, losses.dtype)
    if tf.reduce_all(weights == 0):
        return tf.zeros([], losses.dtype)
    return tf.einsum("i,i->", losses, weights) / global_batch_size
