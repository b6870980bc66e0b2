"""Event files as TensorBoard reads them."""

from pathlib import Path

from tensorboard.backend.event_processing.plugin_event_accumulator import TENSORS, EventAccumulator


def event_points(folder: Path, tag: str) -> list[tuple[int, float]]:
    """A series of one run, (step, value), as TensorBoard shows it."""
    events = EventAccumulator(str(folder), size_guidance={TENSORS: 0}).Reload()  # 0: all points, not a random selection
    return [(event.step, float(event.tensor_proto.float_val[0])) for event in events.Tensors(tag)]
