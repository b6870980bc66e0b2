"""The checks of `hora doctor` of the Slurm pool of a login node. The worker's own program tries it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from hora.doctor.cluster import CLOCK_LIMIT_S, TIME_SERVER
from hora.doctor.findings import Finding
from hora.render.text import duration

_OLDEST = (22, 5)
_LIMIT_S = 300.0  # a minute for a node, and some twenty seconds for each command
_CANCELLING_S = 20.0
_SHARED = "Put HORA_HOME on storage that this machine and all nodes see at the same path, and may write."


def slurm_findings() -> Iterator[Finding]:
    """The pool that this machine offers can be used. Nothing if it offers none."""
    from jobs.runtime.settings import Settings

    try:
        partition = Settings().slurm_partition
    except ValueError:
        return  # `data_roots` names the wrong setting
    if partition is None:
        return
    try:
        output, errors = _run([sys.executable, "-m", "worker.slurm.check"])
    except subprocess.TimeoutExpired:
        yield Finding("slurm", "fail", f"no answer within {duration(_LIMIT_S)}", "Try `sinfo` and `squeue` here.")
        return
    try:
        facts = json.loads(output.splitlines()[-1])
    except (IndexError, ValueError):
        last = (errors.strip() or "no message").splitlines()[-1]
        yield Finding("slurm", "fail", f"not checked: {last}", "On a login node, install hora[worker].")
        return
    yield from judged(facts)


def _run(argv: list[str]) -> tuple[str, str]:
    """What a program wrote. If it is not waited for to its end, it is told to end its test job. `TimeoutExpired`."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,  # Ctrl-C reaches it as the signal below, once
    )  # fmt: skip
    try:
        return process.communicate(timeout=_LIMIT_S)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_CANCELLING_S)


def judged(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """What `worker.slurm.check` printed, as findings."""
    if facts["missing"]:
        advice = "Install Slurm's commands (Debian: slurm-client), or correct PATH."
        yield Finding("slurm", "fail", f"not found: {', '.join(facts['missing'])}", advice)
        return
    if "version" in facts:
        yield _version(facts["version"])
    if "nodes" not in facts:
        if "away" in facts:
            advice = "Check SLURM_CONF, and that the controller runs: `scontrol ping`."
            yield Finding("partition", "fail", f"Slurm does not answer: {facts['away']}", advice)
        else:
            yield Finding("partition", "fail", facts["refused"], "Correct HORA_SLURM_PARTITION. `sinfo` lists them.")
        return
    yield _nodes(facts)
    if facts["nodes"] > len(facts["unusable"]):
        yield from _test_job(facts)


def _version(found: str) -> Finding:
    match = re.match(r"(\d+)\.(\d+)", found)
    if match is not None and (int(match[1]), int(match[2])) < _OLDEST:
        return Finding("slurm", "fail", f"Slurm {found}", "Hora needs Slurm 22.05 or newer.")
    return Finding("slurm", "ok", f"Slurm {found}")


def _nodes(facts: Mapping[str, Any]) -> Finding:
    count, unusable = facts["nodes"], facts["unusable"]
    found = f"{facts['partition']}: {count - len(unusable)} of {count} nodes are up"
    if count > len(unusable):
        return Finding("partition", "ok", found)
    states = ", ".join(sorted(set(unusable.values())))
    return Finding("partition", "fail", f"{found}: they are {states}", "`sinfo -R` says why.")


def _test_job(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Slurm takes a job with the operator's options, and the node that it gives is as a job needs it."""
    with_options = f"a job with {' '.join(facts['options'])}" if facts["options"] else "a job"
    if "no_folder" in facts:
        yield Finding("test job", "fail", f"no folder in {facts['home']}: {facts['no_folder']}", _SHARED)
    elif "waits" in facts:
        found = f"no node in time, so none was checked: the test job {facts['waits']}"
        yield Finding("test job", "warn", found, "Run `hora doctor` again when nodes are free.")
    elif "ended" in facts:
        advice = "Read the log of slurmd on the node, and the script of Slurm's prolog."
        yield Finding("test job", "fail", f"Slurm ended the test job at once: {facts['ended']}", advice)
    elif "node" in facts and "lacks" not in facts:  # it was asked, and gave no whole answer
        found = f"`srun` here cannot use {facts['node']}: {facts.get('away') or facts.get('refused')}"
        advice = "Let it and this machine reach each other, at least on SrunPortRange, and read the log of its slurmd."
        yield Finding("test job", "fail", found, advice)
    elif "refused" in facts:
        advice = "Correct HORA_SLURM_ACCOUNT, HORA_SLURM_QOS and HORA_SLURM_ARGS."
        yield Finding("test job", "fail", f"Slurm refuses {with_options}: {facts['refused']}", advice)
    elif "node" not in facts:
        yield Finding("test job", "fail", f"Slurm does not answer: {facts['away']}", "Check it with `scontrol ping`.")
    else:
        problems = list(_node(facts))
        found = f"Slurm takes {with_options}; {facts['node']} has HORA_HOME, the data and Hora {facts['hora']}"
        yield from problems or [Finding("test job", "ok", found)]


def _node(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """What is wrong with the node that Slurm gave."""
    node, home, hora = facts["node"], facts["home"], facts["hora_there"]
    if not facts["reads_home"]:
        yield Finding("node home", "fail", f"{node} does not see what this machine writes to {home}", _SHARED)
    elif not facts["writes_home"]:
        yield Finding("node home", "fail", f"{node} cannot write to {home}", _SHARED)
    elif not facts["home_is_shared"]:
        yield Finding("node home", "fail", f"this machine does not see what {node} writes to {home}", _SHARED)
    advice = "Install Hora on storage that this machine and all nodes see at the same path."
    if hora is None:
        yield Finding("node python", "fail", f"{node} has no {facts['python']}", advice)
    elif hora != facts["hora"]:
        found = f"{facts['python']} on {node} has not Hora {facts['hora']}, but says: {hora}"
        yield Finding("node python", "fail", found, advice)
    if facts["lacks"]:
        advice = "Mount these folders on all nodes, or correct HORA_DATA_ROOTS and HORA_DATASETS_DIR."
        yield Finding("node data", "fail", f"not on {node}: {', '.join(facts['lacks'])}", advice)
    if facts["clock_apart_s"] > CLOCK_LIMIT_S:
        found = f"{node} and this machine are {duration(facts['clock_apart_s'])} apart"
        yield Finding("node clock", "warn", found, TIME_SERVER)
    address = facts["own_address"]
    if facts["nodes"] > 1 and (not address or address.startswith(("127.", "::1"))):
        found = f"the own name of {node} means {address or 'nothing'} there: no job on several nodes can run"
        yield Finding("node name", "warn", found, "Map each node's name to its address, in /etc/hosts or the DNS.")
