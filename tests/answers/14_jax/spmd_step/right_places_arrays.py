# Right: takes the arrays to the devices itself, and leaves the rest to a plain jit.
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    whole, cut = (NamedSharding(mesh, spec) for spec in (P(), P(mesh.axis_names)))

    @jax.jit
    def descend(params, inputs, targets):
        loss, gradient = jax.value_and_grad(loss_of)(params, inputs, targets)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    def step(params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
        params = jax.device_put(params, whole)
        return descend(params, jax.device_put(inputs, cut), jax.device_put(targets, cut))

    return step
