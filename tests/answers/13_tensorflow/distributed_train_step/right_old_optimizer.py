# Right: TensorFlow's old optimizer, and tf.gradients.
def distributed_train_step(
    strategy: tf.distribute.Strategy,
    variables: Sequence[tf.Variable],
    loss_function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    learning_rate: float,
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]:
    with strategy.scope():
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(learning_rate)

    @tf.function
    def step(features, labels, weights, global_batch_size):
        def on_replica(x, y, w):
            share = tf.nn.compute_average_loss(
                loss_function(x, y), sample_weight=w, global_batch_size=tf.cast(global_batch_size, tf.int32)
            )
            optimizer.apply_gradients(zip(tf.gradients(share, list(variables)), variables))
            return share

        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(on_replica, (features, labels, weights)), None)

    return step
