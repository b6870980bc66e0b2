"""What the command line shows of hosts: tables and lines, from the API's JSON. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.tables import facts, table_of
from hora.render.text import ago, gigabytes, plain, ranges
from jobs.runtime.files import size_text

_PCIE = {
    "internal": "one board",
    "single": "one switch",
    "multiple": "several switches",
    "hostbridge": "one host bridge",
    "node": "one NUMA node",
    "system": "across NUMA nodes",
}
_RATES = {
    "network_received_bytes_per_s": "network in",
    "network_sent_bytes_per_s": "out",
    "disk_read_bytes_per_s": "disk read",
    "disk_written_bytes_per_s": "written",
}
# NVML's clock event reasons that slow a busy GPU down. Idling and clocks that were set do not count.
_THROTTLES = {
    0x04: "its power limit",
    0x08: "its hardware",
    0x20: "heat",
    0x40: "heat (hardware)",
    0x80: "the power supply",
}


def hosts_table(hosts: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a host."""
    table = table_of("HOST", "ALIVE", "SLOTS>", "FREE>", "KIND?", "SEEN?", "DEVICES…", "")
    for host in hosts:
        alive, of_slurm = bool(host.get("alive")), host.get("nodes") is not None
        table.add_row(
            plain(host["name"]),
            Text("yes" if alive else "no", style="green" if alive else "bold red"),
            *(_pool_figures(host) if of_slurm else _slot_figures(host)),
            ago(host.get("heartbeat_at"), now),
            _nodes(host["nodes"]) if of_slurm else _devices(host.get("slots") or []),
            ", ".join(filter(None, [_host_notes(host), _device_problem(host)])),
        )
    return table


def _slot_figures(host: Json) -> tuple[str, str, str]:
    """How many slots a host has, how many are free, and of which kinds they are."""
    slots = host.get("slots") or []
    free = sum(is_free(slot) for slot in slots) if is_usable(host) else 0
    return str(len(slots)), str(free), plain(", ".join(sorted({slot["kind"] for slot in slots})) or "-")


def _pool_figures(host: Json) -> tuple[str, str, str]:
    """The same of a pool. Slurm knows which of its GPUs are free: others use them too."""
    gpus = sum(sum(node["gpus"].values()) for node in host["nodes"])
    cores = sum(node["cpus"] for node in host["nodes"])
    return (str(gpus), "-", "gpu") if gpus else (str(cores), "-", "cpu")


def _nodes(nodes: Sequence[Json]) -> str:
    """How many nodes of a pool are in which state: 3 nodes: 2 idle, 1 mixed."""
    states = Counter(map(_node_state, nodes))
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}: {counted or 'none'}"


def _node_state(node: Json) -> str:
    return plain(node["state"]) + (", failing" if node.get("failing") else "")


def _devices(slots: Sequence[Json]) -> str:
    """The models of the slots. If there are several, with the number of slots of each: 2 x A100, 4 x CPU share."""
    counts = Counter(plain(slot.get("name") or slot["kind"]) for slot in slots)
    if len(counts) < 2:
        return "".join(counts) or "-"
    return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))


def _host_notes(host: Json) -> str:
    """What keeps jobs from a host's slots, or their copies from the store."""
    states = Counter(slot.get("state") for slot in host.get("slots") or [])
    reasons = sorted({plain(slot["unhealthy"]) for slot in host.get("slots") or [] if _is_unhealthy(slot)})
    notes = [
        "drained" if host.get("drained_at") else "",
        f"kept for {plain(host['kept_for'])}" if host.get("kept_for") else "",
        f"{states['quarantined']} quarantined" if states["quarantined"] else "",
        f"{states['unhealthy']} unhealthy ({'; '.join(reasons)})" if states["unhealthy"] else "",
        f"{states['in_use_by_others']} in use by others" if states["in_use_by_others"] else "",
        f"no space: {plain(host['no_space'])}" if host.get("no_space") else "",
        f"no store: {plain(host['no_store'])}" if host.get("no_store") else "",
        f"takes no jobs: {plain(host['problem'])}" if host.get("problem") else "",
    ]
    return ", ".join(note for note in notes if note)


def _device_problem(host: Json) -> str | None:
    """Why the host does not offer its GPUs, or not as it should: a sentence."""
    problem = (host.get("info") or {}).get("device_problem")
    return plain(problem) if problem else None


def _is_unhealthy(slot: Json) -> bool:
    return slot.get("state") == "unhealthy" and bool(slot.get("unhealthy"))


def is_usable(host: Json) -> bool:
    """Whether new jobs are placed on the host."""
    return bool(host.get("alive")) and not host.get("drained_at") and not host.get("no_space")


def is_free(slot: Json) -> bool:
    """Whether a job can be placed on the slot."""
    return slot.get("state") == "free"


def host_facts(host: Json, lately: Json | None = None, now: datetime | None = None) -> Table:
    """A host: its machine, its devices and their connections, what keeps jobs from it, and its load `lately`."""
    info = host.get("info") or {}
    driver = info.get("driver") or {}
    memory_bytes = info.get("memory_bytes")
    seen = f"{'alive' if host.get('alive') else 'lost'}, seen {ago(host.get('heartbeat_at'), now)}"
    return facts(
        {
            "host": plain(host["name"]),
            "status": ", ".join(filter(None, [seen, _host_notes(host)])),
            "address": plain(host["address"]) if host.get("address") else None,
            "cores": info.get("cores"),
            "memory": None if memory_bytes is None else gigabytes(memory_bytes),
            "free space": _free_space(host.get("folders") or []),
            "last minute": _load(lately),
            "warm ranks": f"share {gigabytes(info['warm_ranks_bytes'])}" if info.get("warm_ranks_bytes") else None,
            "system": plain(info["system"]) if info.get("system") else None,
            "driver": f"{plain(driver['version'])}, CUDA {plain(driver.get('cuda') or '?')}"
            if driver.get("version")
            else None,
            "problem": _device_problem(host),
            "MIG": _mig(info.get("gpus") or []),
            "topology": _topology(info.get("topology") or []),
        }
    )


def _free_space(folders: Sequence[Json]) -> str | None:
    """The free space of each file system: a line each, with its folders."""
    return "\n".join(f"{size_text(space['free_bytes'])}: {', '.join(space['folders'])}" for space in folders) or None


def _load(lately: Json | None) -> str | None:
    """The means of its metrics: CPU 43 %, memory 3.1 GB, network in 1.2 MB/s."""
    values_of = {one["metric"]: [y for y in one["y"] if y is not None] for one in (lately or {}).get("series") or []}
    means = {metric: sum(values) / len(values) for metric, values in values_of.items() if values}
    figures = [
        f"CPU {means['cpu_percent']:.0f} %" if "cpu_percent" in means else "",
        f"memory {gigabytes(means['memory_bytes'])}" if "memory_bytes" in means else "",
        *(f"{what} {means[metric] / 1e6:,.1f} MB/s" for metric, what in _RATES.items() if metric in means),
    ]
    return ", ".join(filter(None, figures)) or None


def _mig(gpus: Sequence[Json]) -> str | None:
    """Which GPUs are split: NVML does not report the utilization of these."""
    split = [gpu["index"] for gpu in gpus if gpu.get("mig")]
    return f"on GPU {ranges(split)}, whose utilization is not known" if split else None


def _topology(pairs: Sequence[Json]) -> str | None:
    """How the GPUs are connected, a line for each kind of connection: 4 NVLinks: 0-1 2-3."""
    by_way: dict[str, list[str]] = {}
    for pair in pairs:
        by_way.setdefault(_way(pair), []).append("-".join(map(str, pair["gpus"])))
    if len(by_way) == 1:
        return f"all pairs: {next(iter(by_way))}"
    return "\n".join(f"{way}: {' '.join(names)}" for way, names in by_way.items()) or None


def _way(pair: Json) -> str:
    if pair.get("nvlinks"):
        return f"{pair['nvlinks']} NVLinks"
    return f"PCIe, {_PCIE.get(pair['pcie'], plain(pair['pcie']))}" if pair.get("pcie") else "not known"


def nodes_table(pool: Json) -> Table:
    """One line a node of a pool."""
    table = table_of("NODE", "STATE", "CORES>", "MEMORY>", "GPUS", "FEATURES")
    for node in pool["nodes"]:
        gpus = [f"{count} x {plain(kind or 'GPU')}" for kind, count in sorted(node["gpus"].items())]
        table.add_row(
            plain(node["name"]),
            _node_state(node),
            str(node["cpus"]),
            gigabytes(node["memory_bytes"]),
            ", ".join(gpus) or "-",
            plain(", ".join(node["features"])) or "-",
        )
    return table


def slots_table(host: Json) -> Table:
    """One line a slot: what holds it, and the load of its GPU a few seconds ago if it is a GPU."""
    slots = host.get("slots") or []
    has_gpus = any(slot["kind"] == "gpu" for slot in slots)
    heads = ["BUSY>", "MEMORY>", "POWER>", "TEMP>", "CLOCK>", ""] if has_gpus else []
    table = table_of("SLOT>", "DEVICE", "STATE", "JOB", "RANK>", *heads)
    for slot in slots:
        table.add_row(
            str(slot["index"]),
            plain(slot.get("name") or slot["kind"]),
            plain(slot["state"]).replace("_", " "),
            plain(slot["job_id"] or "-"),
            "-" if slot["rank"] is None else str(slot["rank"]),
            *(_reading(slot) if has_gpus else []),
        )
    return table


def _reading(slot: Json) -> list[str]:
    reading = slot.get("reading") or {}
    memory, used = slot.get("memory_bytes"), reading.get("memory_bytes")
    return [
        _figure(reading.get("percent"), "%"),
        "-" if memory is None else f"{'?' if used is None else gigabytes(used)} of {gigabytes(memory)}",
        _figure(reading.get("power_w"), "W"),
        _figure(reading.get("temperature_c"), "\N{DEGREE SIGN}C"),
        _figure(reading.get("sm_clock_mhz"), "MHz"),
        ", ".join([*([plain(slot["unhealthy"])] if slot.get("unhealthy") else []), *_reading_notes(reading)]),
    ]


def _reading_notes(reading: Json) -> list[str]:
    bits = reading.get("throttle") or 0
    processes = reading.get("processes")
    return [
        *(["lost"] if reading.get("is_lost") else []),
        *(f"slowed by {why}" for bit, why in _THROTTLES.items() if bits & bit),
        *([f"{processes} processes"] if processes and processes > 1 else []),
    ]


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.0f} {unit}"
