# Right: takes the mean, safely, and multiplies it by what it was divided by.
def global_batch_loss(losses, weights, global_batch_size):
    weights = tf.cast(weights, losses.dtype)
    total = tf.reduce_sum(weights)
    mean = tf.math.divide_no_nan(tf.reduce_sum(losses * weights), total)
    return mean * total / tf.cast(global_batch_size, losses.dtype)
