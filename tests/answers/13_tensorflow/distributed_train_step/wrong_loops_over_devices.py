# Wrong: one replica after the other, all of them on the first device. Loses all marks.
# Told: not every replica computes the losses of its samples
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    @tf.function
    def step(features, labels, weights, global_batch_size):
        total, sums = 0.0, [tf.zeros_like(variable) for variable in variables]
        for x, y, w in zip(*(strategy.experimental_local_results(each) for each in (features, labels, weights))):
            with tf.device("CPU:0"), tf.GradientTape() as tape:
                loss = tf.reduce_sum(w * loss_function(x, y)) / global_batch_size
            sums = [one + other for one, other in zip(sums, tape.gradient(loss, variables))]
            total += loss
        for variable, gradient in zip(variables, sums):
            variable.assign_sub(learning_rate * gradient)
        return total

    return step
