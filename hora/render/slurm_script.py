"""The batch script that trains a spec in a job of Slurm, with no service. Pure. Called by `hora export`."""

import json
import re
import shlex
from collections.abc import Sequence

from jobs.model.catalog import DATASETS
from jobs.model.dataset_names import is_versioned
from jobs.model.pools import LEAVING_S, PREFIX, slurm_minutes, slurm_time_s
from jobs.model.problems import FieldProblem
from jobs.model.spec import Spec

_NOT_IN_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 40
_GPU_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_SCRIPT = """#!/bin/sh
{options}

# Trains the spec below with horovodrun on the nodes that Slurm gives: sbatch SCRIPT. Options of sbatch win over those
# above. Submit it again to go on from the last checkpoint. A run that is complete is not trained again.
python=${{HORA_PYTHON:-{python}}}
folder=${{HORA_RUN_FOLDER:-$SLURM_SUBMIT_DIR/{name}}}

exec "$python" -P -m worker.alone "$folder" <<'END'
{spec}
END
"""


def slurm_script(spec: Spec, *, nodes: int, python: str, run: str) -> str:
    """The script for a spec without `problems_alone`. `run` is a text that no other script has."""
    name = script_name(spec, run)
    return _SCRIPT.format(
        options=sbatch_lines(sbatch_options(spec, name, nodes, saves=True)), python=shlex.quote(python), name=name,
        spec=json.dumps(spec.model_dump(mode="json", exclude_unset=True), indent=2),
    )  # fmt: skip


def script_name(spec: Spec, run: str) -> str:
    """The name of the job of Slurm, and of the folder of its run."""
    slug = _NOT_IN_FILE_NAMES.sub("-", spec.name)[:_LONGEST_NAME].strip("-.") or "job"
    return f"hora-{slug}-{run}"


def sbatch_lines(options: Sequence[str]) -> str:
    """The options of sbatch at the beginning of a script."""
    return "\n".join(f"#SBATCH {option}" for option in options)


def sbatch_options(spec: Spec, name: str, nodes: int, *, saves: bool) -> list[str]:
    """The options of sbatch. If it `saves`, it gets a signal before its end."""
    ranks = spec.gpus // nodes
    chosen = [f"--job-name={name}", f"--nodes={nodes}", f"--ntasks-per-node={ranks}"]
    if spec.device != "cpu":
        chosen.append(f"--gres=gpu:{spec.gpu_model + ':' if spec.gpu_model else ''}{ranks}")
    if spec.pool is not None:
        chosen.append(f"--partition={spec.pool.removeprefix(PREFIX)}")
    if spec.time_limit_s is not None:
        chosen.append(f"--time={slurm_minutes(slurm_time_s(spec.time_limit_s))}")
    signal = [f"--signal=B:USR2@{LEAVING_S}"] if saves else []
    return [*chosen, *signal, "--no-requeue", f"--output={name}-%j.log"]


def problems_alone(spec: Spec, *, nodes: int) -> list[FieldProblem]:
    """The fields of a spec that cannot be carried out without the service, and what is wrong with `--nodes`."""
    problems = []
    if spec.dataset is not None:
        for field, source in (("source", spec.dataset.source), ("validation", spec.dataset.validation)):
            if isinstance(source, str) and is_versioned(source):
                message = f"only the service knows registered datasets: name a path, or one of {', '.join(DATASETS)}"
                problems.append(FieldProblem(f"dataset.{field}", message, source))
    if spec.model is not None and spec.model.weights.startswith("job:"):
        message = "only the service knows the weights of its jobs: name a file that ends in .h5, .hdf5 or .keras"
        problems.append(FieldProblem("model.weights", message, spec.model.weights))
    if spec.continue_from is not None:
        message = "only the service has the checkpoints of its jobs: leave it out"
        problems.append(FieldProblem("continue_from", message, spec.continue_from))
    if spec.after:
        message = "only the service knows its jobs: let Slurm wait, with `sbatch --dependency=afterok:ID`"
        problems.append(FieldProblem("after", message, ", ".join(spec.after)))
    if spec.strategy == "mirrored":
        message = "mirrored runs only in the service: use horovod, which has a rank for each task of Slurm"
        problems.append(FieldProblem("strategy", message, spec.strategy))
    if spec.probe is not None:
        problems.append(FieldProblem("probe", "only the service shows what a probe finds: use `hora probe`"))
    if spec.gpu_memory_gb is not None:
        message = "Slurm does not know the memory of a GPU: choose its type with gpu_model"
        problems.append(FieldProblem("gpu_memory_gb", message, f"{spec.gpu_memory_gb:g}"))
    if spec.gpu_model is not None and not _GPU_TYPE.fullmatch(spec.gpu_model):
        message = "here it is the type of the GPUs in Slurm: letters, digits, dots, dashes and underscores"
        problems.append(FieldProblem("gpu_model", message, spec.gpu_model))
    if spec.placement == "single_host" and nodes > 1:
        problems.append(FieldProblem("--nodes", "is 1 for placement: single_host", str(nodes)))
    elif spec.gpus % nodes:
        message = f"every node gets the same number of ranks, and {spec.gpus} gpus do not divide by {nodes} nodes"
        problems.append(FieldProblem("--nodes", message, str(nodes)))
    return problems
