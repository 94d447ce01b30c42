# Wrong: at most 6 samples on a device. Loses the hidden marks.
# Told: with the gradient of the mean loss over the whole batch
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    (axis,) = mesh.axis_names
    whole, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P(axis))

    def block(array: jax.Array) -> jax.Array:
        return lax.slice_in_dim(array, 0, min(6, array.shape[0]))

    def on_a_device(params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(params, block(inputs), block(targets))
        gradient, loss = lax.pmean(gradient, axis), lax.pmean(loss, axis)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    return jax.jit(
        shard_map(
            on_a_device,
            mesh=mesh,
            in_specs=(P(), P(axis), P(axis)),
            out_specs=(P(), P()),
            check_vma=False,
        ),
        in_shardings=(whole, cut, cut),
        out_shardings=(whole, whole),
    )
