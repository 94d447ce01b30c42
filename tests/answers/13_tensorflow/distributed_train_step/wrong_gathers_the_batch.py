# Wrong: brings all samples to one device and computes there. Loses all marks.
# Told: the losses of the whole batch are computed in one place
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    @tf.function
    def step(features, labels, weights, global_batch_size):
        features, labels, weights = (
            tf.concat(strategy.experimental_local_results(each), axis=0) for each in (features, labels, weights)
        )
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(weights * loss_function(features, labels)) / global_batch_size
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            variable.assign_sub(learning_rate * gradient)
        return loss

    return step
