"""What every block adds to the logit of the model's top token in the frame of order 1, by ``lexframe==1.0.0``."""

from serve import hugging_face_model, serve, tokens


def prepare(job):
    """Calibrate; the work is the states, the prefixes and the attribution."""
    from lexframe import LexFrame

    calibration, text = tokens(job, "calibration"), tokens(job, "passage")
    frame = LexFrame(hugging_face_model(job), order=1).init(calibration, size=len(calibration), cache=False)
    return lambda: {"attribution": frame.attr(text)[:, 1:]}  # position 0 has no prefix


if __name__ == "__main__":
    serve(prepare)
