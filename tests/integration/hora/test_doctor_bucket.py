"""What `hora doctor` reads of an S3 server: the rules of the bucket, and the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

import pytest

from hora.doctor.bucket import rule_findings
from hora.doctor.store import clock
from jobs.copies.store import Store, StoreAway

RULES = """<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<Rule><ID>uploads</ID><Status>Enabled</Status><Filter><Prefix></Prefix></Filter>
<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>
<Rule><ID>old</ID><Status>Enabled</Status><Filter><Prefix>team/jobs/</Prefix></Filter>
<Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>"""
VERSIONING = '<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}</VersioningConfiguration>'


def refusal(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>no</Message></Error>"


@dataclass
class Bucket:
    """What the server answers, by the query, and how far its clock is ahead."""

    answers: dict[str, tuple[int, str]]
    ahead: timedelta = timedelta()
    url: str = ""

    def store(self) -> Store:
        return Store("s3://bucket/team", {"key": "me", "secret": "secret", "endpoint_url": self.url})


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    state = Bucket({"lifecycle": (200, RULES), "versioning": (200, VERSIONING.format(""))})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = state.answers[urlsplit(self.path).query.partition("=")[0]]
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content.encode())

        def date_time_string(self, timestamp: float | None = None) -> str:
            return format_datetime(datetime.now(UTC) + state.ahead, usegmt=True)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        state.url = f"http://127.0.0.1:{server.server_port}"
        yield state
        server.shutdown()
        thread.join()


def found(bucket: Bucket) -> list[str]:
    return [finding.found for finding in rule_findings(bucket.store(), keep_days=365)]


def test_the_rules_of_the_bucket_are_read(bucket: Bucket) -> None:
    assert found(bucket) == ["rule old removes files after 30 days, before Hora does"]
    bucket.answers["versioning"] = (200, VERSIONING.format("<Status>Enabled</Status>"))
    bucket.answers["lifecycle"] = (404, refusal("NoSuchLifecycleConfiguration"))
    uploads, versions = found(bucket)
    assert ("unfinished uploads" in uploads, "old versions" in versions) == (True, True)
    for status, code in ((501, "NotImplemented"), (403, "AccessDenied"), (405, "MethodNotAllowed")):
        bucket.answers["lifecycle"] = (status, refusal(code))
        assert found(bucket) == [], "a server that shows no rules is no error"


@pytest.mark.parametrize(("status", "content"), [(200, VERSIONING.format("")), (403, refusal("RequestTimeTooSkewed"))])
def test_a_clock_that_is_off_is_said_also_if_s3_refuses_it(bucket: Bucket, status: int, content: str) -> None:
    bucket.answers["versioning"] = (status, content)
    assert list(clock(bucket.store().ask_bucket("get_bucket_versioning"))) == []
    bucket.ahead = timedelta(minutes=20, seconds=30)
    (finding,) = clock(bucket.store().ask_bucket("get_bucket_versioning"))
    assert (finding.check, finding.level) == ("store clock", "warn")
    assert "this machine and the store are 20 min" in finding.found


def test_a_server_that_is_away_is_an_error_without_credentials() -> None:
    config = {"connect_timeout": 1, "retries": {"max_attempts": 0}}
    options = {"key": "me", "secret": "hunter2", "endpoint_url": "http://127.0.0.1:9", "config_kwargs": config}
    with pytest.raises(StoreAway) as raised:
        Store("s3://bucket/team", options).ask_bucket("get_bucket_versioning")
    assert "hunter2" not in str(raised.value)
