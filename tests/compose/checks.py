"""What `python -m tests.compose` checks of every stack in containers, new or upgraded. Each raises `AssertionError`."""

import json
import re
import subprocess
import urllib.request

from hora.errors import Conflict
from tests.archives import chips
from tests.commands import HORA, environment
from tests.compose.stack import WORKERS, ContainerStack
from tests.waiting import until

_JOB = ("--model", "mlp", "--batch-size", "8", "--learning-rate", "0.001", "--epochs", "5", "--gpus", str(WORKERS))
_LIMIT_S = 900.0  # for one command; the longest waits for a job


def check_page(stack: ContainerStack) -> None:
    """A browser gets the page and everything that it loads."""
    kind, page = _fetch(stack, "/")
    assets = re.findall(r'(?:src|href)="(/assets/[^"]+)"', page)
    assert kind == "text/html", f"/ answers {kind}"
    assert assets, f"/ names no assets: {page[:200]}"
    for path in assets:
        kind, text = _fetch(stack, path)
        assert kind in ("text/javascript", "application/javascript", "text/css"), f"{path} answers {kind}"
        assert text, f"{path} is empty"


def _fetch(stack: ContainerStack, path: str) -> tuple[str, str]:
    request = urllib.request.Request(stack.settings["HORA_URL"] + path, headers={"Accept": "text/html,*/*;q=0.8"})
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.headers.get_content_type(), answer.read().decode()


def check_upload(stack: ContainerStack) -> str:
    """The command line outside the containers uploads a dataset, and a worker validates it. Returns its version."""
    folder = stack.home / "chips"
    for path, content in chips(of_each=40).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    dataset = json.loads(_hora(stack, "dataset", "add", "chips", str(folder), "--upload", "--wait", "--json"))
    return f"{dataset['name']}@{dataset['version']}"


def check_job(stack: ContainerStack, dataset: str, *, weights: str = "none") -> str:
    """The command line outside the containers runs a job on all workers. Returns its id."""
    job_id = _hora(stack, "submit", *_JOB, "--dataset", dataset, "--set", f"model.weights={weights}").strip()
    _hora(stack, "show", job_id, "--wait")
    started = [line for line in _hora(stack, "logs", job_id).splitlines() if "started on" in line]
    hosts = {re.sub(r".* started on (.*),.*", r"\1", line) for line in started}
    assert len(hosts) == WORKERS, f"the ranks were not on {WORKERS} hosts: {started}"
    check_download(stack, job_id)
    return job_id


def check_download(stack: ContainerStack, job_id: str) -> None:
    """The api can read the files that a worker wrote, or copied to the store a moment after the job's end."""
    weights = stack.home / f"{job_id}.weights.h5"
    until(lambda: _has_artifacts(stack, job_id), what="the artifacts")
    _hora(stack, "artifacts", job_id, "--download", "model.weights.h5", "--output", str(weights))
    assert weights.stat().st_size, f"{weights} is empty"


def _has_artifacts(stack: ContainerStack, job_id: str) -> bool:
    try:
        return "model.weights.h5" in [file["path"] for file in stack.api.artifacts(job_id)]
    except Conflict:  # their copies are not in the store yet
        return False


def check_doctor(stack: ContainerStack) -> None:
    """`hora doctor` finds nothing to do, but that a store in a folder of this machine is on the disk of its host."""
    expected = {"store"} if stack.has_store else set()
    complaints = [one for one in stack.doctor() if one["level"] != "ok" and one["check"] not in expected]
    assert not complaints, f"hora doctor: {complaints}"


def check_cpu_slots(stack: ContainerStack) -> str:
    """Each host lists a card that TensorFlow cannot use. So it has CPU slots, and says why. Returns `hora hosts`."""
    for host in json.loads(_hora(stack, "hosts", "--json"))["items"]:
        kinds = {slot["kind"] for slot in host["slots"]}
        assert kinds == {"cpu"}, f"{host['name']} has slots of the kinds {kinds}"
        problem = host["info"].get("device_problem") or ""
        assert "TensorFlow" in problem, f"{host['name']} does not say why it has no GPU slots: {problem!r}"
    return _hora(stack, "hosts")


def _hora(stack: ContainerStack, *arguments: str) -> str:
    """What a command prints. It must succeed."""
    done = subprocess.run(
        [*HORA, *arguments], env=environment(stack.home, **stack.settings), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=_LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (
        f"`hora {' '.join(arguments)}` ended with {done.returncode}: {done.stdout}{done.stderr}"
    )
    return done.stdout
