"""Certificates for servers of tests."""

import shutil
import subprocess
from pathlib import Path

import pytest


def self_signed(folder: Path, name: str) -> Path:
    """A self-signed certificate with its key in one file, for a name such as `DNS:a.example.com` or `IP:127.0.0.1`.

    The certificate alone is beside it, with the ending `.crt`.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not there to make a certificate")
    path = folder / "both.pem"
    subprocess.run(
        [
            openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-subj", "/CN=hora-test", "-addext", f"subjectAltName={name}",
            "-keyout", path, "-out", path.with_suffix(".crt"),
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path
