"""The batch script that runs the command of a spec of own code in a job of Slurm, with no service. Pure.

Called by `hora export`.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from hora.render.slurm_script import sbatch_lines, sbatch_options, script_name
from jobs.model.problems import FieldProblem
from jobs.model.script_fields import EMPTY, filled_in
from jobs.model.spec import Spec

# A rank of the command sees the variables that it sees in the service. Variables of Slurm that name the GPUs stay.
_RANK = (
    "export RANK=$HOROVOD_RANK WORLD_SIZE=$HOROVOD_SIZE LOCAL_RANK=$HOROVOD_LOCAL_RANK"
    ' LOCAL_WORLD_SIZE=$HOROVOD_LOCAL_SIZE; exec "$@"'
)
ARTIFACTS = "\0artifacts\0"  # stands for the folder, which the shell knows; a text with it is always quoted
_OWN_CODE = """#!/bin/sh
{options}

# Runs the command at the end once on each rank, with horovodrun on the nodes that Slurm gives: sbatch SCRIPT. It runs
# in the folder of the code, with the files that are there then.
{notes}python=${{HORA_PYTHON:-{python}}}
code=${{HORA_CODE_FOLDER:-{code}}}
folder=${{HORA_RUN_FOLDER:-$SLURM_SUBMIT_DIR/{name}}}

if [ "$SLURM_NTASKS" != {ranks} ]; then
  echo "hora: the command is for {ranks} ranks, and Slurm gave $SLURM_NTASKS tasks: export it with other gpus" >&2
  exit 1
fi
each=$((SLURM_NTASKS / SLURM_JOB_NUM_NODES))
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/$/:$each/" | paste -sd, -)
network=$([ "$SLURM_JOB_NUM_NODES" -gt 1 ] || echo --network-interfaces lo)
mkdir -p "$folder/artifacts" "$folder/lib" && ln -sfn {library} "$folder/lib/hora" &&
  ln -sfn {library}/hooks/sitecustomize.py "$folder/lib/sitecustomize.py" && cd "$code" || exit 1
cat > "$folder/run.json" <<'END'
{given}
END
{exports}export PATH={bin_dir}:"$PATH" PYTHONPATH="$folder/lib" PYTHONUNBUFFERED=1
export HORA_RUN_FILE="$folder/run.json" HORA_ARTIFACTS="$folder/artifacts"
export MASTER_ADDR="${{hosts%%:*}}" MASTER_PORT=29500

exec "$python" -P -m worker.horovodrun --slurm-job "$SLURM_JOB_ID" -np {ranks} -H "$hosts" $network --gloo \\
  --disable-cache sh -c {rank} sh {command}
"""


def command_script(
    spec: Spec,
    values: Mapping[str, Any],
    given: Mapping[str, Any],
    *,
    nodes: int,
    python: str,
    run: str,
    code: str,
    library: str,
    bin_dir: str,
) -> str:
    """The script that runs the command of a spec of own code, as it runs in the service.

    `values` are those of its placeholders, with `ARTIFACTS` for that folder, and `given` is what `hora.run` knows.
    `code` is the folder, `library` that of the package `hora`, and `bin_dir` has the programs of the environment.
    """
    name = script_name(spec, run)
    variables = spec.env | ({"CUDA_VISIBLE_DEVICES": "-1"} if spec.device == "cpu" else {})
    command = " ".join(map(shlex.quote, filled_in(spec.command or [], values)))
    return _OWN_CODE.format(
        options=sbatch_lines([f"--ntasks={spec.gpus}", *sbatch_options(spec, name, nodes, saves=False)]),
        notes="".join(f"# {note}\n" for note in not_exported(spec)),
        python=shlex.quote(python), code=shlex.quote(code), name=name, ranks=spec.gpus, library=shlex.quote(library),
        exports="".join(f"export {variable}={shlex.quote(text)}\n" for variable, text in variables.items()),
        bin_dir=shlex.quote(bin_dir), given=json.dumps(given), rank=shlex.quote(_RANK),
        command=command.replace(ARTIFACTS, """'"$folder/artifacts"'"""),
    )  # fmt: skip


def not_exported(spec: Spec) -> list[str]:
    """What a spec of own code says that its script cannot do, a sentence each. All are one line."""
    notes = []
    if spec.requirements is not None:
        asked = "of requirements.txt" if isinstance(spec.requirements, str) else " ".join(spec.requirements)
        notes.append(f"requirements: install these packages into the environment first: {asked}")
    if spec.early_stopping is not None:
        notes.append("early_stopping: run.should_stop() never becomes true")
    if spec.alerts:
        notes.append("alerts: nobody reads the metrics and the log")
    if spec.gpus > 1:
        notes.append("a comparison of weights: nobody says so if the ranks average nothing")
    return [f"Not exported: {note}." for note in notes]


def problems_of_code(spec: Spec) -> list[FieldProblem]:
    """The fields of a spec of own code that cannot be carried out without the service."""
    if spec.environment != EMPTY:
        return []
    message = "only the service makes it: name an environment of HORA_ENVIRONMENTS, or leave it out"
    return [FieldProblem("environment", message, spec.environment)]
