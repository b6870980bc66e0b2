"""Which artifacts of a job are media, by name, kind and step: their paths say it. Pure; called by the api.

`media/NAME/STEP.ENDING`, as `hora.run.media` writes them. NAME may have parts; in place of a step, `run` is the whole
run. `STEP.txt` is the caption of the picture of that step.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from jobs.data.artifact_files import Artifact
from jobs.views.media import MediaKind, MediaStepView, MediaView

MOST_STEPS = 1_000
_KINDS: dict[str, MediaKind] = {
    **dict.fromkeys(("png", "jpg", "jpeg", "webp"), "image"), **dict.fromkeys(("wav", "mp3", "ogg", "flac"), "audio"),
    "histogram.json": "histogram", "table.json": "table", "matrix.json": "confusion_matrix", "curve.json": "curve",
}  # fmt: skip
_PATH = re.compile(rf"media/(.+)/([0-9]{{1,10}}|run)\.({'|'.join(map(re.escape, _KINDS))})")
_WHOLE = float("inf")  # the place of what belongs to the whole run: after all steps


@dataclass(frozen=True)
class Media:
    """The files of one name and kind, by step."""

    name: str
    kind: MediaKind
    files: dict[float, Artifact] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Differs from those of all others."""
        return f"{self.name}/{self.kind}"

    def view(self, paths: Iterable[str]) -> MediaView:
        """The answer of the API; `paths` are those of all artifacts of the job."""
        steps = [self._step(place, self.files[place], paths) for place in sorted(self.files)[-MOST_STEPS:]]
        return MediaView(name=self.name, kind=self.kind, steps=steps)

    def _step(self, place: float, file: Artifact, paths: Iterable[str]) -> MediaStepView:
        caption = f"{file.path.rpartition('.')[0]}.txt"
        return MediaStepView(
            step=None if place == _WHOLE else int(place), path=file.path, bytes=file.bytes,
            modified_at=file.modified_at, caption_path=caption if self.kind == "image" and caption in paths else None,
        )  # fmt: skip


def media_among(artifacts: Iterable[Artifact]) -> list[Media]:
    """The media of a job. Of two files of one name, kind and step the newer one counts."""
    found: dict[tuple[str, MediaKind], Media] = {}
    for file in sorted(artifacts, key=lambda artifact: artifact.modified_at):
        match = _PATH.fullmatch(file.path)
        if match is not None:
            name, step, kind = match[1], match[2], _KINDS[match[3]]
            media = found.setdefault((name, kind), Media(name, kind))
            media.files[_WHOLE if step == "run" else int(step)] = file
    return list(found.values())
