"""Basis directions of order 1 at every position of a short text, by ``lexframe==1.0.0``.

Its ``basis`` solves by 30 steps of LSMR with the same relative ridge, and scales each direction so that it raises its
token's logit by one: directions agree, lengths do not. It takes all positions of a text at once.
"""

from serve import hugging_face_model, serve, tokens


def prepare(job):
    """Calibrate; the work is the states and the solutions."""
    from lexframe import LexFrame

    calibration, text = tokens(job, "calibration"), tokens(job, "text")
    frame = LexFrame(hugging_face_model(job), order=1).init(calibration, size=len(calibration), cache=False)

    def work():
        (found,) = frame.view(text, layers=[job["layer"]]).basis(job["labels"])
        return {"basis": found.numpy()}

    return work


if __name__ == "__main__":
    serve(prepare)
