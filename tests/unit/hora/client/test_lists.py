"""Lists of the client: as lists, as tables of pandas, and in notebooks."""

import time
from collections.abc import Iterator
from typing import Any

import httpx2 as httpx
import pytest
from pydantic import BaseModel

from hora import Client, Pages, ServiceUnavailable
from tests.unit.hora.played import ended, in_turn, job, json_answer, page, study


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


class Number(BaseModel):
    number: int


class Source:
    """Numbers from 0, which counts what is asked of it."""

    def __init__(self, size: int, *, fails_at: int | None = None) -> None:
        self.size, self.fails_at = size, fails_at
        self.asked = self.begun = 0

    def __call__(self) -> Iterator[Number]:
        self.begun += 1
        for number in range(self.size):
            if number == self.fails_at:
                self.fails_at = None
                raise ServiceUnavailable("away")
            self.asked += 1
            yield Number(number=number)


def numbers(items: Any) -> list[int]:
    return [one.number for one in items]


def test_a_loop_fetches_as_it_goes_and_keeps_nothing() -> None:
    source = Source(1000)
    pages = Pages(source)
    assert source.begun == 0
    assert numbers(one for one, _ in zip(pages, range(3), strict=False)) == [0, 1, 2]
    assert source.asked == 4  # `zip` takes one more
    assert [one.number for one in pages] == list(range(1000))
    assert (source.begun, pages._kept) == (2, [])
    assert not Pages(Source(0))


def test_an_index_and_a_slice_fetch_what_they_need_and_keep_it() -> None:
    source = Source(1000)
    pages = Pages(source)
    assert (pages[5].number, source.asked) == (5, 6)
    assert pages[5] is pages[5]
    assert (numbers(pages[2:8]), source.asked) == ([2, 3, 4, 5, 6, 7], 8)
    assert (numbers(one for one, _ in zip(pages, range(10), strict=False)), source.begun) == ([*range(10)], 1)
    assert bool(pages)
    assert pages[-1].number == 999
    assert len(pages) == 1000
    assert numbers(pages[10:4:-3]) == [10, 7]
    assert numbers(pages[-2:]) == [998, 999]
    assert [*pages] == [*pages[:]]
    assert (source.begun, source.asked) == (1, 1000)
    with pytest.raises(IndexError):
        pages[1000]


def test_next_takes_items_as_from_an_iterator() -> None:
    pages = Pages(Source(4))
    assert (next(pages).number, next(pages).number, numbers(pages)) == (0, 1, [2, 3])
    with pytest.raises(StopIteration):
        next(pages)


def test_a_list_whose_fetch_failed_is_fetched_again_from_the_start() -> None:
    pages = Pages(Source(10, fails_at=7))
    assert pages[3].number == 3
    with pytest.raises(ServiceUnavailable):
        len(pages)
    assert (len(pages), numbers(pages)) == (10, list(range(10)))


def client_of(*answers: httpx.Response | Exception) -> Client:
    transport, _ = in_turn(*answers)
    return Client("http://hora.test/", "secret", transport=transport)


VALUES = {"val_accuracy": {"last": 0.9, "best": 0.95, "best_epoch": 2}}


def test_jobs_become_a_table_of_pandas_by_the_names_of_the_api() -> None:
    pytest.importorskip("pandas")
    done = ended(id="b", metrics=VALUES, labels={"team": "vision"}, summary={"wall_s": 3.5, "metrics": VALUES})
    frame = client_of(json_answer(page(job(id="a"), done))).jobs.list().to_pandas()
    assert frame["id"].tolist() == ["a", "b"]
    assert frame["status"].tolist() == ["queued", "succeeded"]
    assert {type(value) for value in frame["status"]} == {str}
    assert frame["spec.batch_size"].tolist() == [32, 32]
    assert frame["labels.team"].isna().tolist() == [True, False]
    assert frame["metrics.val_accuracy.best"].tolist()[1:] == [0.95]
    assert frame["created_at"].dt.year.tolist() == [2030, 2030]
    assert not [name for name in frame if name.startswith(("metric_values", "summary.metrics"))]
    two = client_of(json_answer(page(job(), done))).jobs.list()[:2].to_pandas()
    assert two.shape == frame.shape


def test_a_notebook_shows_the_first_jobs_as_a_table() -> None:
    many = [job(id=f"j{number}", name=f"<b>{number}</b>", metrics=VALUES) for number in range(30)]
    html = client_of(json_answer(page(*many, next_cursor="more"))).jobs.list()._repr_html_()
    assert html.count("<tr>") == 21
    assert '<td><a href="http://hora.test/jobs/j0" target="_blank" rel="noopener">j0</a></td>' in html
    assert "<td>&lt;b&gt;0&lt;/b&gt;</td><td>queued</td><td>digits</td>" in html
    assert "<td>val_accuracy 0.95</td>" in html
    assert html.endswith("<p>and more</p>")
    assert client_of(json_answer(page())).jobs.list()._repr_html_() == "<p>nothing</p>"


def curve(*values: float | None) -> httpx.Response:
    x = list(range(1, len(values) + 1))
    return json_answer({"series": [{"name": "val_accuracy", "rank": -1, "x": x, "y": values, "bands": []}]})


def test_a_notebook_shows_a_job_with_the_curve_of_its_goal() -> None:
    mine = job(error='</td><script>alert("x")</script>', metrics=VALUES, attempt=1)
    client = client_of(json_answer(mine), curve(0.5, None, 0.9), *[httpx.ConnectError("away")] * 4)
    shown = client.jobs.get("0job")
    assert shown.url == "http://hora.test/jobs/0job"
    html = shown._repr_html_()
    assert '<polyline points="2.0,30.0 158.0,2.0"' in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    without = shown._repr_html_()  # the service is away now
    assert ("<svg" in without, "val_accuracy 0.95" in without) == (False, True)
    assert repr(shown) == "Job(id='0job', name='job', status='queued')"
    client = client_of(json_answer(study(name="<i>")), curve(0.5, 1.0))
    assert "<td>&lt;i&gt;</td>" in client.studies.get("0stu")._repr_html_()
    assert "<td>val_accuracy</td><td>2</td><td>1</td><td><svg" in client.jobs.metrics("0job")._repr_html_()
