"""The Jacobian lens, by ``lexframe.baselines`` of ``lexframe==1.3.0``.

Same definition (positions 16 .. T-2 as sources and targets, J[i, j] = d out_i / d in_j), same layer numbers (a block's
input), except that layer 0 is not fitted. It keeps the lens in half precision: a relative error of 2e-4.
"""

from serve import hugging_face_model, serve, tokens


def prepare(job):
    """Load the model; the work is the whole fit."""
    from lexframe.baselines import SKIP, JacobianLens

    if job["skip"] != SKIP:
        raise SystemExit(f"the peer always skips {SKIP} positions")
    model, prompts = hugging_face_model(job), tokens(job, "prompts")

    def work():
        lens = JacobianLens(model).fit(
            prompts, size=len(prompts), dim_batch=job["peer_cotangents"], cache=False, progress=False
        )
        return {"jacobians": lens.jacobian[1:].float().numpy()}

    return work


if __name__ == "__main__":
    serve(prepare)
