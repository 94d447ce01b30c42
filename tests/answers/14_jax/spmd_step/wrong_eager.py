# Wrong: right shardings and no jit: every operation is a program of its own. Loses all marks.
# Told: is one function under jax.jit
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    cut = NamedSharding(mesh, P(mesh.axis_names[0]))

    def step(params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
        inputs, targets = jax.device_put(inputs, cut), jax.device_put(targets, cut)
        loss, gradient = jax.value_and_grad(loss_of)(params, inputs, targets)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    return step
