"""Jobs: submit, find, control. What they wrote: `hora.client.job_records`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from hora.client.job import Job
from hora.client.job_records import JobRecords
from hora.client.resource import document_with, reads, reads_pages, returns
from hora.errors import JobFailed
from hora.service import Json, Service
from jobs.model.spec import Spec
from jobs.model.states import Status
from jobs.views.job_groups import JobGroup
from jobs.views.jobs import JobCount, Preview
from jobs.views.queue import QueueView

if TYPE_CHECKING:
    from hora.client.fields import CallFields, ChangeFields, SpecFields

Value = TypeVar("Value")
SpecLike = Spec | Mapping[str, Any]


class Jobs(JobRecords):
    """`client.jobs`. A `Job` has the methods for one job too, without the id."""

    get = reads(Job, Service.job)
    list = reads_pages(Job, Service.jobs)
    groups = reads_pages(JobGroup, Service.job_groups)
    count = reads(JobCount, Service.job_count)
    queue = reads(QueueView, Service.queue)
    delete = returns(Service.delete)
    cancel = reads(Job, Service.cancel)
    pause = reads(Job, Service.pause)
    resume = reads(Job, Service.resume)

    def submit(
        self, spec: SpecLike | None = None, *, idempotency_key: str | None = None, **fields: "Unpack[SpecFields]"
    ) -> Job:
        """Submit a spec, or a spec of these fields. If both are given, the fields replace those of the spec.

        It makes one job, even if the request is sent again. The same `idempotency_key` gives the same job again.
        """
        return self._read(Job, self._service.submit(document_with(spec, fields), idempotency_key=idempotency_key))

    def dry_run(self, spec: SpecLike | None = None, **fields: "Unpack[SpecFields]") -> Preview:
        """The plan of such a submission, with a quote from past jobs and warnings. Nothing is stored."""
        return self._read(Preview, self._service.dry_run(document_with(spec, fields)))

    def update(self, job_id: str, **fields: "Unpack[ChangeFields]") -> Job:
        """Change the job's `name`, `priority`, `time_limit_s`, `labels`, `notes`, `starred`, `archived` or `project`.

        `update(id, priority=80)`. None removes the time limit, the notes, or a label: `labels={"team": None}`. Other
        labels stay.
        """
        return self._read(Job, self._service.update(job_id, fields))

    def clone(
        self,
        job_id: str,
        changes: Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
        **fields: "Unpack[SpecFields]",
    ) -> Job:
        """Submit the job's spec again, with changes that are nested like the spec."""
        document = {**(changes or {}), **fields}
        return self._read(Job, self._service.clone(job_id, document, idempotency_key=idempotency_key))

    def continue_from(self, job_id: str, epoch: int | None = None, **fields: "Unpack[SpecFields]") -> Job:
        """Continue a job that has ended in a new one, with its spec and these changes, such as `epochs=20`.

        It begins at the checkpoint of an epoch: by default at the newest that is kept.
        """
        checkpoint = f"job:{job_id}" if epoch is None else f"job:{job_id}@{epoch}"
        return self.clone(job_id, {**fields, "continue_from": checkpoint})

    def import_run(
        self, folder: Path | str, *, project: str | None = None, on_bytes: Callable[[int], None] | None = None
    ) -> Job:
        """Send the folder of a run that was trained with no service. Returns its job, which has ended.

        A run that you imported before gives the same job. The job belongs to `project`, or to the project of the run's
        spec. `on_bytes` gets the number of bytes sent so far. Raises `HoraError` if the folder is not that of a run, or
        a job still trains there.
        """
        from hora.service.sending_runs import packed_run, send_run

        with packed_run(Path(folder), project=project) as run:
            return self._read(Job, send_run(self._service, run, on_bytes or (lambda _: None)))

    def run(
        self,
        function: Callable[..., Value],
        *,
        gpus: int = 1,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
        on_update: Callable[[Job], None] | None = None,
        **fields: "Unpack[CallFields]",
    ) -> Value:
        """Call a function on each of `gpus` ranks, wait, and return the value of rank 0.

        The function and its arguments are sent by `cloudpickle`: those of a notebook and of modules that are not
        installed by value, so the ranks need the same minor version of Python. `fields` are those of the spec, such as
        `params`, `env` and `requirements`. `on_update` gets the job after each change. If the wait is interrupted from
        the keyboard, the job is cancelled.

        An exception on rank 0 is raised here with its own type, and the remote traceback as its cause; if it cannot be
        read here, or if the function ended the process, it is a `ScriptFailed`. Raises `JobFailed` if the job ended
        otherwise, and `WaitTimeout`. Raises `TypeError` before anything is sent for what is no function with a value,
        and for the fields `code` and `command`, which are those of the call.

        The value and the exception are pickles. Reading them runs what they contain, so this trusts everybody who may
        write the artifacts of the job: its function, and the operators of the service.
        """
        from hora.client.calls import COMMAND, error_of, packed_call, value_of
        from hora.service.sending_code import send_code

        if of_call := {"code", "command"} & fields.keys():
            raise TypeError(f"run sets {' and '.join(sorted(of_call))} itself: to run a folder use client.jobs.submit")
        digest = send_code(self._service, packed_call(function, args, kwargs))["digest"]
        spec = {"name": getattr(function, "__name__", "call"), "gpus": gpus, **fields}
        job = self.submit(spec, code=digest, command=list(COMMAND))
        try:
            job = self.wait(job.id, timeout_s=timeout_s, on_update=on_update)
        except KeyboardInterrupt:
            self.cancel(job.id)
            raise
        if job.status == Status.SUCCEEDED:
            value: Value = value_of(self._service, job)
            return value
        raise error_of(self._service, job) or JobFailed(job)

    def wait(
        self,
        job_id: str,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        on_update: Callable[[Job], None] | None = None,
    ) -> Job:
        """Return the job when it has ended. With `check`: raise `JobFailed` if it did not succeed.

        Raises `WaitTimeout`. `on_update` gets the job after each change, its end included. The wait survives a service
        that is away for less than a minute.
        """

        def update(document: Json) -> None:
            if on_update is not None:
                on_update(self._read(Job, document))

        job = self._read(Job, self._service.wait(job_id, on_update=update, timeout_s=timeout_s))
        if check and job.status != Status.SUCCEEDED:
            raise JobFailed(job)
        return job
