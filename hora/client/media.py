"""What a job kept by step: pictures, sounds, histograms, tables and curves. Made by `client.jobs.media`."""

import json
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from hora.errors import HoraError
from hora.service import Service
from jobs.views.media import MediaStepView, MediaView

_FILES = ("image", "audio")  # all other kinds are JSON
_MOST_NAMED = 20  # steps in a sentence


class Media(MediaView):
    """What a job kept under a name, by step. `steps` says which there are."""

    _service: Service = PrivateAttr()
    _job_id: str = PrivateAttr()

    def of(self, service: Service, job_id: str) -> "Media":
        """The same, with the job whose files it reads."""
        self._service, self._job_id = service, job_id
        return self

    def read(self, step: int | None = None) -> Any:
        """The bytes of a picture or a sound, and the JSON of any other kind; without a step, of the last one."""
        content = self._service.artifact_content(self._job_id, self._at(step).path)
        return content if self.kind in _FILES else json.loads(content)

    def save(self, into: Path | str, step: int | None = None) -> Path:
        """Download the file of a step, or of the last one, to the file `into`."""
        return self._service.download_artifact(self._job_id, self._at(step).path, into)

    def _at(self, step: int | None) -> MediaStepView:
        found = next((one for one in reversed(self.steps) if step in (None, one.step)), None)
        if found is None:
            named = ", ".join(str(one.step) for one in self.steps[:_MOST_NAMED])
            more = ", ..." if self.steps[_MOST_NAMED:] else ""
            raise HoraError(f"{self.name} has no step {step}: the job kept the steps {named}{more}.")
        return found
