# Right: gradients come out of strategy.run as a PerReplica; they are reduced, and every copy is changed, outside.
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    @tf.function
    def step(features, labels, weights, global_batch_size):
        def on_replica(features, labels, weights):
            with tf.GradientTape() as tape:
                losses = loss_function(features, labels)
                loss = tf.reduce_sum(weights * losses) / global_batch_size
            return loss, tape.gradient(loss, variables)

        losses, gradients = strategy.run(on_replica, args=(features, labels, weights))
        for variable, gradient in zip(variables, gradients):
            gradient = strategy.reduce("SUM", gradient, axis=None)
            variable.assign_sub(learning_rate * gradient)
        return strategy.reduce("SUM", losses, axis=None)

    print("a step for", strategy.num_replicas_in_sync, "replicas")
    return step
