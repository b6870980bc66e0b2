"""What drivers of stores say is told without the credentials that they quote."""

import pytest

from jobs.copies.driver_errors import Masks

OPTIONS = {
    "key": "AKIA5", "secret": "geheim/x", "client_kwargs": {"endpoint_url": "https://s3.example.com", "verify": [True]},
    "connection_string": "AccountKey=abc;BlobEndpoint=https://x", "tokens": ["one-token"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Connect timeout on https://s3.example.com/bucket", "Connect timeout on https://s3.example.com/bucket"),
        ("InvalidAccessKeyId: AKIA5 is unknown", "InvalidAccessKeyId: ... is unknown"),
        ("geheim/x was refused with one-token", "... was refused with ..."),
        ("no such account in AccountKey=abc;BlobEndpoint=https://x", "no such account in ..."),
        ("cannot reach http://ann:pw@host:9000/b?sig=5", "cannot reach http://...@host:9000/b"),
        ("GET https://host/b/k?X-Amz-Credential=1&X-Amz-Signature=2: 403", "GET https://host/b/k 403"),
    ],
)
def test_an_error_names_no_credentials(text: str, shown: str) -> None:
    assert Masks(OPTIONS).sentence(ValueError(text)) == f"ValueError: {shown}"


def test_an_error_of_the_system_is_told_in_its_words() -> None:
    assert Masks({}).sentence(OSError(28, "No space left on device")) == "No space left on device"
