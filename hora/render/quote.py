"""The plan and the expected time of a submission, from the API's JSON. Pure; called by the CLI."""

from collections.abc import Callable, Mapping

from rich.table import Table

from hora.errors import Json
from hora.render.specs import batch_text, what_runs
from hora.render.tables import facts
from hora.render.text import count, duration, percent, plain
from jobs.model.gpu_time import gpu_time

_MOST_JOBS = 5
_BASIS = {
    "same_spec": "runs of the same spec",
    "same_batch_and_gpus": "runs of the same work, with the same batch and number of GPUs",
    "scaled": "runs of the same work with other batches or GPUs, scaled",
}


def preview_table(preview: Json) -> Table:
    """The resolved plan and the quote."""
    spec, plan = preview["spec"], preview["plan"]
    rows: dict[str, object] = {
        "name": plain(spec["name"]),
        **what_runs(spec),
        "continues": plain(spec["continue_from"]) if spec.get("continue_from") else None,
        "gpus": spec["gpus"],
        "batch": batch_text(spec, plan),
        **_recipe(spec, plan),
        "samples": f"{count(plan['train_samples'])} train, {count(plan.get('validation_samples'))} validation"
        if plan.get("train_samples")
        else "known once the data is open",
        "steps": f"{count(plan['steps_per_epoch'])} an epoch, {plan['epochs']} epochs at most"
        if plan.get("steps_per_epoch")
        else f"{plan['epochs']} epochs at most",
    }
    return facts({**rows, **_quoted(preview.get("quote"), spec["gpus"])})


def _recipe(spec: Json, plan: Json) -> dict[str, object]:
    """How the weights are updated. A script decides that itself."""
    factor, warmup = plan["lr_factor"], plan["warmup_epochs"]
    scaled = "" if factor == 1 else f", {plan['base_learning_rate']:g} x {factor:.4g} ({plain(spec['lr_scaling'])})"
    rate = {"learning rate": f"{plan['learning_rate']:g}{scaled}"}
    if spec.get("code") is not None:
        return {**rate}
    rises = f"{warmup} epoch{'' if warmup == 1 else 's'}, from {plan['base_learning_rate']:g}" if warmup else "none"
    return {
        "optimizer": _part_text(spec.get("optimizer", "adam")),
        **rate,
        "warm-up": rises,
        "schedule": _part_text(spec.get("schedule", "constant")),
    }


def _part_text(part: str | Json) -> str:
    """A part of a spec that is a name, or a name with fields: step (epochs 30, 60, 80; factor 0.1)."""
    if isinstance(part, str):
        return plain(part)
    fields = [
        f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in part.items()
        if name != "name" and value is not None
    ]
    return plain(f"{part['name']} ({'; '.join(fields)})")


def _quoted(quote: Json | None, gpus: int) -> dict[str, object]:
    if quote is None:
        return {"expected": "nothing: no past job is comparable"}
    more = len(quote["jobs"]) > _MOST_JOBS
    return {
        "training time": _range(quote["wall_s"], duration),
        "expected epochs": plain(quote["epochs"]) if quote["epochs"] else None,
        "set-up": _range(quote["setup_s"], duration),
        "samples/s": _range(quote["samples_per_s"], count),
        "GPU time": _range(quote["gpu_hours"], gpu_time),
        "speed-up": _speedup(quote, gpus),
        "last doubling": f"{quote['doubling_gain']:.2f} times the throughput of half as many GPUs"
        if quote.get("doubling_gain") is not None
        else None,
        "rests on": f"{_BASIS.get(quote['basis'], plain(quote['basis']))}: "
        + ", ".join(map(plain, quote["jobs"][:_MOST_JOBS]))
        + (", ..." if more else ""),
    }


def _speedup(quote: Json, gpus: int) -> str | None:
    if quote.get("speedup") is None or gpus == 1:
        return None
    efficiency = "" if quote.get("efficiency") is None else f", {percent(quote['efficiency'])} of the ideal"
    return f"{quote['speedup']:.2f} over one GPU{efficiency}"


def _range(figures: Mapping[str, float] | None, told: Callable[[float], str]) -> str | None:
    """12.0 s (10.5 s to 14.2 s)."""
    if figures is None:
        return None
    mean, low, high = (told(figures[name]) for name in ("mean", "low", "high"))
    return mean if low == high else f"{mean} ({low} to {high})"


def warning_lines(preview: Json) -> list[str]:
    """The warnings about a submission, a line each."""
    return [f"Warning: {plain(one)}" for one in preview.get("warnings") or []]
