# Right: after an all-reduce every replica has the sum, and changes its own copy.
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    def on_replica(features, labels, weights, size):
        with tf.GradientTape() as tape:
            losses = loss_function(features, labels)
            share = tf.reduce_sum(losses * weights) / size
        context = tf.distribute.get_replica_context()
        for variable, gradient in zip(variables, tape.gradient(share, variables)):
            variable.assign_sub(learning_rate * context.all_reduce("SUM", gradient))
        return share

    @tf.function
    def step(features, labels, weights, global_batch_size):
        shares = strategy.run(on_replica, args=(features, labels, weights, global_batch_size))
        return strategy.reduce("SUM", shares, axis=None)

    return step
