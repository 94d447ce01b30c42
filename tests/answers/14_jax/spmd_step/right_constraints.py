# Right: a class whose jitted method says inside where arrays lie.
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    class Descent:
        def __init__(self) -> None:
            self.compiled = jax.jit(self.descend)

        def put(self, array: Any, *axes: str) -> Any:
            return lax.with_sharding_constraint(array, NamedSharding(mesh, P(*axes)))

        def descend(self, params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
            batch = self.put(inputs, *mesh.axis_names), self.put(targets, *mesh.axis_names)
            loss, gradient = jax.value_and_grad(loss_of)(params, *batch)
            new = jax.tree.map(lambda p, g: self.put(p - rate * g), params, gradient)
            return new, self.put(loss)

        def __call__(self, params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
            return self.compiled(params, inputs, targets)

    return Descent()
