"""What drivers of stores say is told without the credentials that they quote."""

import pytest

from jobs.copies.driver_errors import Masks

OPTIONS = {
    "key": "AKIA5", "secret": "geheim/x", "client_kwargs": {"endpoint_url": "https://s3.example.com", "verify": [True]},
    "connection_string": "AccountKey=abc;BlobEndpoint=https://x", "tokens": ["one-token"],
    "token": "/x1y2z3/SECRETpart", "proxy": "EndpointSuffix=core.windows.net;AccountKey=a+b/c==",
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
        ("refused: /x1y2z3/SECRETpart in /home/ann/creds", "refused: ... in creds"),
        ("no key geheim%2Fx, no x1y2z3", "no key ..., no x1y2z3"),
        ("token=/x1y2z3/SECRETpart, %2Fx1y2z3%2FSECRETpart", "token=..., ..."),
        (
            "bad key a+b/c==, a%2Bb/c%3D%3D, a%2Bb%2Fc%3D%3D for core.windows.net",
            "bad key ..., ..., ... for core.windows.net",
        ),
    ],
)
def test_an_error_names_no_credentials(text: str, shown: str) -> None:
    assert Masks(OPTIONS).sentence(ValueError(text)) == f"ValueError: {shown}"


def test_an_error_of_the_system_is_told_in_its_words() -> None:
    assert Masks({}).sentence(OSError(28, "No space left on device")) == "No space left on device"


def test_a_secret_in_the_name_of_a_file_is_hidden() -> None:
    error = FileNotFoundError(2, "No such file or directory", "/x1y2z3/SECRETpart")
    assert Masks(OPTIONS).sentence(error) == "No such file or directory: '...'"


@pytest.mark.parametrize(
    ("name", "value", "is_hidden"),
    [
        ("AWS_SECRET_ACCESS_KEY", "/abc/defgh", True),
        ("AWS_SESSION_TOKEN", "abc=defgh", True),
        ("AZURE_STORAGE_KEY", "abcdefgh", True),
        ("AZURE_CLIENT_SECRET", "short", False),
        ("AWS_ACCESS_KEY_ID", "AKIA12345678", False),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "token-file", False),
        ("AZURE_KEYVAULT", "https://vault.example.com", False),
        ("OTHER_SECRET_KEY", "abcdefgh", False),
    ],
)
def test_secrets_of_the_environment_are_hidden(
    name: str, value: str, is_hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    masks = Masks({})
    monkeypatch.delenv(name)
    shown = "..." if is_hidden else value
    assert masks.sentence(ValueError(f"refused: {value}")) == f"ValueError: refused: {shown}"


def test_the_key_of_a_connection_string_in_the_environment_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=ann1;AccountKey=abcd=="
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert Masks({}).sentence(ValueError("abcd== at https://x")) == "ValueError: ... at https://x"
