"""Findings, time and advice of a job: rows for `hora show`, from the API's JSON. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.text import Text

from hora.errors import Json
from hora.render.text import duration, inside, percent, plain

Rows = dict[str, object]
_MOST_RANKS = 16
_MOST_STALLS = 3
_PART_NAMES = {
    "set_up": "set-up",
    "data_wait": "waiting for data",
    "communication": "in allreduce",
    "after_best": "after the best epoch",
}
_CAUSES = {"data": "waiting for data", "communication": "in allreduce"}  # of a stall


def analysis_rows(analysis: Json | None) -> Rows:
    """A row for each thing that is known."""
    if analysis is None:
        return {}
    return {
        "findings": _bullets(analysis["findings"]),
        "step time": _step_time(analysis["steps"]),
        "utilization": _utilization(analysis["utilization"]),
        "uneven": _block(plain(one["text"]) for one in analysis["imbalances"]),
        "stalls": _stalls(analysis["stalls"]),
        "slot time": ledger_line(analysis["ledger"]),
        "waited": _waited(analysis["ledger"]),
    }


def advice_rows(items: Sequence[Json]) -> Rows:
    """The advice, numbered: what to change, why, and what it is expected to bring."""
    if not items:
        return {}
    text = Text()
    for item in items:
        number = f"{item['number']}. "
        indent = "\n" + " " * len(number)
        text.append(("\n" if text else "") + number)
        text.append(plain(item["what"]), style="bold")
        text.append(indent + plain(item["why"]))
        text.append(f"{indent}Expected: {inside(plain(item['gain']['text']))}")
    return {"advice": text}


def ledger_line(ledger: Json) -> str | None:
    """What the leased time of all slots went into: 2 min 10 s of slots: useful 61 %, set-up 20 %, ..."""
    leased_s = ledger["leased_s"]
    if not leased_s:
        return None
    shares = {name: seconds / leased_s for name, seconds in ledger["items"].items()}
    parts = [
        f"{_part_name(name)} {percent(share)}"
        for name, share in sorted(shares.items(), key=lambda item: -item[1])
        if share >= 0.005
    ]
    return f"{duration(leased_s)}: {', '.join(parts)}"


def _waited(ledger: Json) -> str | None:
    """How long the job waited, and how much of that in Slurm: 12 s, and 3 min in Slurm."""
    in_slurm_s = ledger.get("waited_in_slurm_s", 0.0)
    own_s = ledger.get("waited_s", 0.0) - in_slurm_s
    if own_s + in_slurm_s < 1:
        return None
    return duration(own_s) if not in_slurm_s else f"{duration(own_s)} in Hora's queue, {duration(in_slurm_s)} in Slurm"


def _part_name(name: str) -> str:
    return _PART_NAMES.get(name, plain(name).replace("_", " "))


def _bullets(findings: Sequence[Json]) -> Text | None:
    bullets = Text()
    for one in findings:
        bullets.append("\n" if bullets else "")
        bullets.append(plain(one["kind"]).replace("_", " "), style="bold")
        bullets.append(f": {plain(one['text'])}")
    return bullets or None


def _step_time(steps: Sequence[Json]) -> str | None:
    """Of all ranks together: 18.2 ms, of which 60 % computing, 12 % waiting for data, 28 % in allreduce.

    With `mirrored` nothing measures the averaging.
    """
    for one in steps:
        if one["rank"] < 0:
            shares = (("computing", "compute"), ("waiting for data", "data_wait"), ("in allreduce", "allreduce"))
            parts = ", ".join(f"{percent(one[name])} {what}" for what, name in shares if one[name] is not None)
            averaging = "; averaging is not measured: it is in computing" if one["allreduce"] is None else ""
            return f"{_short(one['step_time_s'])}, of which {parts}{averaging}"
    return None


def _utilization(uses: Sequence[Json]) -> str | None:
    """A line for each rank of the newest attempt that was sampled."""
    newest = max((use["attempt"] for use in uses), default=0)
    lines = [_use_line(use) for use in uses if use["attempt"] == newest]
    more = len(lines) - _MOST_RANKS
    return _block(lines[:_MOST_RANKS] + ([f"and {more} ranks more"] if more > 0 else []))


def _use_line(use: Json) -> str:
    """rank 0 (ha 0): GPU 81 % on average, 12-99 % (p5-p95), half or more in 95 % of the time, every 4.0 s."""
    what = {"gpu_percent": "GPU", "cpu_percent": "CPU"}.get(use["metric"], plain(use["metric"]))
    spread = use["spread"]
    period_s = use["period_s"]
    return (
        f"rank {use['rank']} ({plain(use['host'])} {use['slot']}): {what} {spread['mean']:.0f} % on average, "
        f"{spread['p5']:.0f}-{spread['p95']:.0f} % (p5-p95), half or more in {percent(use['duty_cycle'])} of the time, "
        f"spikiness {use['spikiness']:.2f}" + (f", every {duration(period_s)}" if period_s else "")
    )


def _stalls(stalls: Sequence[Json]) -> str | None:
    lines = [_stall_line(stall) for stall in stalls[:_MOST_STALLS]]
    more = len(stalls) - _MOST_STALLS
    return _block(lines + ([f"and {more} shorter ones"] if more > 0 else []))


def _stall_line(stall: Json) -> str:
    """30.2 s after step 120 of attempt 1, at 14:03:02 UTC, waiting for rank 1; a step takes 20 ms; slots at 1 %."""
    at = datetime.fromisoformat(stall["began_at"])
    use, rank = stall.get("use_percent"), stall.get("rank")
    cause = f"waiting for rank {rank}" if stall["cause"] == "rank" and rank is not None else _CAUSES.get(stall["cause"])
    parts = [
        duration(stall["length_s"]) + (" so far" if stall["ongoing"] else ""),
        f" after step {stall['after_step']} of attempt {stall['attempt']}, at {at:%H:%M:%S} UTC",
        f", {cause}" if cause else "",
        f"; a step takes {_short(stall['usual_step_s'])}",
        "" if use is None else f"; slots at {use:.0f} %",
    ]
    return "".join(parts)


def _short(seconds: float) -> str:
    """A time that may be much shorter than a second."""
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else duration(seconds)


def _block(lines: Iterable[str]) -> str | None:
    return "\n".join(lines) or None
