"""What a spec runs, in words. From the API's JSON; pure. Used by the other modules of `hora.render`."""

import shlex
from collections.abc import Mapping

from hora.errors import Json
from hora.render.text import plain


def what_runs(spec: Json) -> dict[str, object]:
    """What a job runs: the dataset and the model, or the command of a script with the code that it is in."""
    if spec.get("code") is None:
        dataset, model = spec.get("dataset") or {}, spec.get("model") or {}
        return {"dataset": plain(dataset.get("source", "-")), "model": plain(model.get("name", "-"))}
    dataset = spec.get("dataset")
    return {
        "command": command_line(spec),
        "code": ", ".join(filter(None, [plain(spec["code"]), commit_text(spec.get("labels") or {})])),
        "dataset": plain(dataset["source"]) if dataset else None,
    }


def batch_text(spec: Json, plan: Json) -> str:
    """The batch of a GPU and of a step: 32 per GPU, 4 of them in a step, 256 in all."""
    accumulate = spec.get("accumulate", 1)
    several = f", {accumulate} of them in a step" if accumulate > 1 else ""
    return f"{plan.get('per_gpu_batch')} per GPU{several}, {plan.get('global_batch')} in all"


def command_line(spec: Json) -> str:
    """The command of a script as a person types it."""
    return plain(shlex.join(map(str, spec.get("command") or [])))


def commit_text(labels: Mapping[str, str]) -> str | None:
    """The git commit of the code: commit 1a2b3c4d on main, with changes."""
    commit = labels.get("git.commit")
    if not commit:
        return None
    branch = f" on {plain(labels['git.branch'])}" if labels.get("git.branch") else ""
    return f"commit {plain(commit)}{branch}" + (", with changes" if labels.get("git.dirty") == "true" else "")
