"""Orders 0, 1 and 2 of every layer, by ``lexframe==1.0.0``.

One calibrated frame serves all orders: it gives the same numbers as one frame per order. Its ``kl`` is KL(model ||
reading) in nats at every sequence, layer 0 .. L and position; at position 0 every order is exact, as here.
"""

from serve import hugging_face_model, serve, tokens


def prepare(job):
    """Calibrate; the work is the reading only."""
    from lexframe import LexFrame

    test = tokens(job, "test")
    calibration = tokens(job, "calibration")
    frame = LexFrame(hugging_face_model(job), order=0).init(calibration, size=len(calibration), cache=False)

    def work():
        found = {}
        for order in job["orders"]:
            frame.order = order
            reading = frame.view(test, k=1)
            found[f"kl_{order}"] = reading.kl
            found[f"top_{order}"] = reading.ids[..., 0]
            found[f"confidence_{order}"] = reading.probs[..., 0]
        return found

    return work


if __name__ == "__main__":
    serve(prepare)
