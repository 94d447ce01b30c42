# Right: TensorFlow's own function, with the size of the global batch.
def global_batch_loss(losses, weights, global_batch_size):
    weights = tf.cast(weights, losses.dtype)
    return tf.nn.compute_average_loss(losses, sample_weight=weights, global_batch_size=global_batch_size)
