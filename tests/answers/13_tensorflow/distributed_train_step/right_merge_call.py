# Right: everything on the replicas; merge_call brings them together for the update, as optimizers do it.
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    def update(strategy, gradients):
        summed = strategy.extended.batch_reduce_to("SUM", list(zip(gradients, variables)))
        for variable, gradient in zip(variables, summed):
            strategy.extended.update(variable, lambda v, g: v.assign_sub(learning_rate * g), args=(gradient,))

    def on_replica(features, labels, weights, size):
        with tf.GradientTape() as tape:
            share = tf.reduce_sum(loss_function(features, labels) * weights / size)
        gradients = tape.gradient(share, variables)
        tf.distribute.get_replica_context().merge_call(update, args=(gradients,))
        return share

    @tf.function
    def step(features, labels, weights, size):
        return strategy.reduce("SUM", strategy.run(on_replica, (features, labels, weights, size)), axis=None)

    return step
