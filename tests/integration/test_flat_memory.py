"""The api's memory stays flat for any request: a body is read up to its limit and no further."""

import http.client
import re
from pathlib import Path

from hora.service import Service
from hora.stack.control import Stack

MIB = 1024 * 1024
SENT_MIB = 256
MOST_MIB = 48  # of growth: some pieces of 16 MiB, and what reading them takes


def peak_mib(stack: Stack, *, anew: bool = False) -> float:
    """The peak resident memory of the api since its start, or since the last call with `anew`."""
    process = Path(f"/proc/{stack.pid_of('api')}")
    if anew:
        (process / "clear_refs").write_text("5")
    found = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def send_without_end(stack: Stack, method: str, path: str, media_type: str) -> int:
    """Send a body without a length and without an end. Returns the status of the answer that comes before its end."""
    host, _, port = stack.url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=120)
    connection.putrequest(method, path)
    for name, value in {
        "Authorization": f"Bearer {stack.token}", "Content-Type": media_type, "Transfer-Encoding": "chunked",
    }.items():  # fmt: skip
        connection.putheader(name, value)
    connection.endheaders()
    try:
        for _ in range(SENT_MIB):
            connection.send(b"100000\r\n" + b"[" * MIB + b"\r\n")
        connection.send(b"0\r\n\r\n")
    except OSError:  # the server refuses the rest
        pass
    try:
        with connection.getresponse() as answer:
            return answer.status
    finally:
        connection.close()


def test_endless_request_bodies_do_not_use_up_memory(short_folder: Path) -> None:
    """On a stack of its own, so that only this test raises the api's peak of memory."""
    parts = ("database", "broker", "migrations", "api")
    with Stack(short_folder / "home", port=0, parts=parts) as stack, Service(stack.url, stack.token) as service:
        upload_id = service.start_upload(filename="a.zip", size_bytes=1000 * MIB)["id"]
        before = peak_mib(stack, anew=True)
        for method, path, media_type in (
            ("POST", "/v1/jobs", "application/json"),
            ("POST", "/v1/studies", "application/json"),
            ("POST", "/v1/tokens", "application/json"),
            ("PUT", f"/v1/uploads/{upload_id}/content?offset=0", "application/octet-stream"),
        ):
            assert send_without_end(stack, method, path, media_type) in (413, 422), path
        assert peak_mib(stack) - before < MOST_MIB
