# Wrong: every replica gets all samples and computes everything. Loses all marks.
# Told: the losses of the whole batch are computed in one place
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    @tf.function
    def step(features, labels, weights, global_batch_size):
        batch = [tf.concat(strategy.experimental_local_results(each), axis=0) for each in (features, labels, weights)]

        def on_replica(features, labels, weights):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights * loss_function(features, labels)) / global_batch_size
            return loss, tape.gradient(loss, variables)

        losses, gradients = strategy.run(on_replica, args=batch)
        for variable, gradient in zip(variables, gradients):
            strategy.extended.update(variable, lambda v, g: v.assign_sub(learning_rate * g), args=(gradient,))
        return strategy.experimental_local_results(losses)[0]

    return step
