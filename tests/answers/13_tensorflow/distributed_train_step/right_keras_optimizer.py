# Right: Keras' SGD, which adds the gradients up and changes all copies itself.
def distributed_train_step(strategy, variables, loss_function, learning_rate):
    with strategy.scope():
        optimizer = tf.keras.optimizers.SGD(learning_rate)
        optimizer.build(variables)

    @tf.function
    def step(features, labels, weights, global_batch_size):
        def on_replica(features, labels, weights):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(weights * loss_function(features, labels)) / global_batch_size
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss

        return strategy.reduce("SUM", strategy.run(on_replica, args=(features, labels, weights)), axis=None)

    return step
