"""The findings and the progress of a batch probe, from its records. Used by the intake."""

from typing import Any

from jobs.model.records import ProbeEnded, ProbeFindings, ProbeMeasured, ProbePoint, ProbeStepped
from jobs.model.spec import ProbeSpec

ProbeRecord = ProbeStepped | ProbeMeasured | ProbeEnded


class ProbeIntake:
    """The findings and the progress of a job. Taking a record twice does no harm.

    `stored` is what the job's row has: another reader may have stored a part. In the progress, a step is a measured
    batch, `steps` counts the possible ones, and `per_gpu_batch` is the present one.
    """

    def __init__(self, probe: ProbeSpec, own_batch: int, stored: dict[str, Any] | None) -> None:
        self._batches = len(probe.batches(own_batch))
        self.begin_anew()
        for point in ProbeFindings.model_validate(stored).points if stored else []:
            self._take_point(point)

    def begin_anew(self) -> None:
        """Forget what an earlier attempt found."""
        self._points: dict[int, ProbePoint] = {}
        self._ended: ProbeFindings | None = None
        self.progress: dict[str, Any] = {"epochs": None, "step": 0, "steps": self._batches, "per_gpu_batch": None}

    @property
    def findings(self) -> ProbeFindings:
        """The findings so far."""
        return self._ended or ProbeFindings(points=list(self._points.values()))

    def take(self, record: ProbeRecord) -> None:
        """Take a record of rank 0."""
        match record:
            case ProbeStepped():
                self.progress |= {"per_gpu_batch": record.per_gpu_batch}
            case ProbeMeasured():
                self._take_point(record.point)
            case ProbeEnded():
                self._ended = record.findings
                self.progress |= {"per_gpu_batch": None}

    def _take_point(self, point: ProbePoint) -> None:
        self._points[point.per_gpu_batch] = point
        speed = self.progress.get("samples_per_s") if point.samples_per_s is None else point.samples_per_s
        self.progress |= {"step": len(self._points), "samples_per_s": speed}
