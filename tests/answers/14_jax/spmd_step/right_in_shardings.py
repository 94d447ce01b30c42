# Right: jit with in_shardings and out_shardings.
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    (axis,) = mesh.axis_names
    whole = NamedSharding(mesh, P())
    cut = NamedSharding(mesh, P(axis))

    def step(params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(params, inputs, targets)
        new = jax.tree.map(lambda p, g: p - rate * g, params, gradient)
        return new, loss

    return jax.jit(step, in_shardings=(whole, cut, cut), out_shardings=(whole, whole))
