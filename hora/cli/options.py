"""Arguments and options that several commands of `hora` have."""

from typing import Annotated

import typer

from hora.cli.completion import host_names, job_ids, study_ids

JobId = Annotated[str, typer.Argument(metavar="ID", help="The job.", autocompletion=job_ids)]
JobIds = Annotated[list[str], typer.Argument(metavar="ID...", help="The jobs.", autocompletion=job_ids)]
StudyId = Annotated[str, typer.Argument(metavar="STUDY", help="The study.", autocompletion=study_ids)]
StudyIds = Annotated[list[str], typer.Argument(metavar="STUDY...", help="The studies.", autocompletion=study_ids)]
HostName = Annotated[str, typer.Argument(metavar="NAME", help="The host.", autocompletion=host_names)]
SpecFile = Annotated[
    str | None, typer.Argument(metavar="[FILE]", help="A spec in YAML or JSON. - reads standard input.")
]
# Fields of the spec, for a `SpecCommand`.
Dataset = Annotated[str | None, typer.Option()]
Model = Annotated[str | None, typer.Option()]
Gpus = Annotated[int | None, typer.Option()]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else. While waiting: one object a line.")]
Changes = Annotated[
    list[str], typer.Option("--set", metavar="FIELD=VALUE", help="Set any field, such as dataset.validation=0.2.")
]
Labels = Annotated[
    list[str], typer.Option("--label", metavar="K:V", help="A label to find the job by. Repeat it for several.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Submit nothing. Show the plan and the expected time.")]
Wait = Annotated[bool, typer.Option("--wait", help="Watch the job until it ends.")]
CancelSaves = Annotated[bool, typer.Option("--save", help="Save a checkpoint first, from which a job can continue.")]
Timeout = Annotated[float | None, typer.Option(metavar="S", min=0, help="Wait at most S seconds.")]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="The largest number of rows.")]
