# Right: all gradients in one flat tensor, as DDP does it: one all-reduce.
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    sizes = [variable.shape.num_elements() for variable in variables]

    @tf.function
    def step(features, labels, weights, global_batch_size):
        def on_replica(features, labels, weights):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights * loss_function(features, labels)) / global_batch_size
            gradients = tape.gradient(loss, variables)
            return tf.concat([tf.reshape(each, [-1]) for each in [*gradients, loss]], axis=0)

        flat = strategy.reduce("SUM", strategy.run(on_replica, args=(features, labels, weights)), axis=None)
        *gradients, loss = tf.split(flat, [*sizes, 1])
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(learning_rate * tf.reshape(gradient, variable.shape))
        return loss[0]

    return step
