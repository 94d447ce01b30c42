# Right: an all-reduce on the replicas, then strategy.extended.update for every variable.
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    def on_replica(features, labels, weights, global_batch_size):
        with tf.GradientTape() as tape:
            loss = tf.tensordot(weights, loss_function(features, labels), 1) / global_batch_size
        gradients = tape.gradient(loss, list(variables))
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, [loss, *gradients])

    def descend(variable, gradient):
        variable.assign_sub(learning_rate * gradient)

    def step(features, labels, weights, global_batch_size):
        loss, *gradients = strategy.run(on_replica, args=(features, labels, weights, global_batch_size))
        for variable, gradient in zip(variables, gradients, strict=True):
            strategy.extended.update(variable, descend, args=(gradient,))
        return strategy.experimental_local_results(loss)[0]

    return tf.function(step)
