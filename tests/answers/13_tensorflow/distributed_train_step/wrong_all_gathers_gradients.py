# Wrong: every replica gets the gradients of all others and adds them up itself. Loses the hidden marks.
# Told: One reduction of them for all
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    devices = strategy.extended.worker_devices

    @tf.function
    def step(features, labels, weights, global_batch_size):
        def on_replica(features, labels, weights):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights * loss_function(features, labels)) / global_batch_size
            return loss, tape.gradient(loss, variables)

        losses, gradients = strategy.run(on_replica, args=(features, labels, weights))
        for variable, gradient in zip(variables, gradients):
            parts = strategy.experimental_local_results(gradient)
            for copy, device in zip(strategy.experimental_local_results(variable), devices):
                with tf.device(device):
                    copy.assign_sub(learning_rate * tf.add_n(parts))
        return strategy.reduce("SUM", losses, axis=None)

    return step
