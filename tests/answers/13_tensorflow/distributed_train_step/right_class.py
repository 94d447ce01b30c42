# Right: a class; the gradient of the losses, weighted on its way back.
class Trainer:
    def __init__(self, strategy, variables, loss_function, learning_rate):
        self.strategy, self.variables = strategy, tuple(variables)
        self.loss_function, self.rate = loss_function, learning_rate
        self.step = tf.function(self.one_step)

    def forward_backward(self, features, labels, weights, size):
        with tf.GradientTape(persistent=True) as tape:
            losses = self.loss_function(features, labels)
        parts = tf.math.divide(weights, size)
        mine = [tape.gradient(losses, each, output_gradients=parts) for each in self.variables]
        del tape
        everybody = tf.distribute.get_replica_context()
        totals = [everybody.all_reduce(tf.distribute.ReduceOp.SUM, each) for each in mine]
        [each.assign_sub(tf.multiply(self.rate, total)) for each, total in zip(self.variables, totals)]
        return tf.math.reduce_sum(losses * parts)

    def one_step(self, features, labels, weights, global_batch_size):
        share = self.strategy.run(self.forward_backward, args=(features, labels, weights, global_batch_size))
        return self.strategy.reduce("sum", share, axis=None)


def distributed_train_step(strategy, variables, loss_function, learning_rate):
    return Trainer(strategy, variables, loss_function, learning_rate).step
