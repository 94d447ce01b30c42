# Right: shard_map, and the gradient of the mean loss.
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    axis = mesh.axis_names[0]

    def on_device(params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
        def mean_loss(params: Params) -> jax.Array:
            return lax.pmean(loss_of(params, inputs, targets), axis)

        loss, gradient = jax.value_and_grad(mean_loss)(params)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    mapped = shard_map(on_device, mesh=mesh, in_specs=(P(), P(axis), P(axis)), out_specs=P())
    return jax.jit(mapped)
