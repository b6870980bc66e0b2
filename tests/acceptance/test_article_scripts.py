"""Scripts in the manner of the articles, unchanged, train one model on two ranks; one that averages nothing is told."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.acceptance.conftest import ended, run_folder
from tests.acceptance.test_example_code import has_torch

SCRIPTS = Path(__file__).parent / "article_scripts"


def printed(client: Service, job_id: str) -> list[str]:
    return [line["text"] for line in client.logs(job_id, limit=5000)["items"]]


def figures(lines: list[str]) -> dict[tuple[str, int], Any]:
    """What the scripts said, by name and rank."""
    said = [json.loads(line.removeprefix("figures ")) for line in lines if line.startswith("figures ")]
    return {(each["name"], each["rank"]): (each["losses"], each["weights"]) for each in said}


def test_two_ranks_train_as_one_with_the_global_batch(stack: Stack, client: Service) -> None:
    """Their weights are the same bits, and their losses those of one rank. Nobody changed a line of the scripts."""
    jobs = [run_folder(stack, gpus, SCRIPTS, "--", "python", "all_of_them.py") for gpus in (2, 1)]
    for job_id in jobs:
        job = ended(client, job_id)
        assert job["status"] == "succeeded", job["error"]
        assert not [event for event in client.events(job_id) if event["kind"] == "alert"]
    lines, lines_of_one = (printed(client, job_id) for job_id in jobs)
    together, alone = figures(lines), figures(lines_of_one)
    names = {name for name, _ in alone}
    assert len(names) == 11
    assert together.keys() == {(name, rank) for name in names for rank in range(2)}
    for name in names:
        (losses, weights), (own_losses, own_weights) = together[name, 0], alone[name, 0]
        assert together[name, 1] == (losses, weights), name
        if name not in ("warm-up", "loaded"):  # where the rate depends on the number of ranks
            assert losses == pytest.approx(own_losses, abs=1e-5), name
            assert weights == pytest.approx(own_weights, rel=1e-4), name
    assert "loaded True 24" in lines
    assert "warmed up to 0.10000000149011612" in lines
    assert sum("does not correct the momentum" in line for line in lines) == 1
    assert "HorovodRunner(np=2): the job has 1 ranks, and all of them run the function" in lines_of_one


@pytest.mark.parametrize(
    ("library", "options"),
    [
        ("keras", ()),
        pytest.param(
            "torch", ("--set", "environment=torch"),
            marks=pytest.mark.skipif(not has_torch(), reason="the system's Python has no PyTorch"),
        ),
    ],
    ids=["keras", "torch"],
)  # fmt: skip
def test_a_script_that_averages_nothing_is_told_so(
    stack: Stack, client: Service, library: str, options: tuple[str, ...]
) -> None:
    job_id = run_folder(stack, 2, SCRIPTS, *options, "--", "python", "alone.py", library)
    job = ended(client, job_id)
    assert (job["status"], job["end_reason"]) == ("failed", "weights_differ")
    [alert] = [event["data"] for event in client.events(job_id) if event["kind"] == "alert"]
    assert (alert["level"], alert["title"]) == ("error", "The ranks have different weights")
    for text in (job["error"], alert["text"]):  # each rank looks as far as the other one is by then
        step, differ = re.fullmatch(r"After step (\d+) the weights of rank 1 (.*)", text).groups()
        assert step in ("3", "6", "8")
        assert differ.startswith("differ from those of rank 0 (by ")
        assert differ.endswith(": no gradient was averaged, so each rank trains a model of its own.")
