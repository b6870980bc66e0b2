"""A process that opens untrusted files, on a full disk."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.full_disks import fill_up, small_disk


def test_temporary_files_go_nowhere_else_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "temporary.py").write_text(
        "import tempfile\ndef answer(request):\n    with tempfile.NamedTemporaryFile() as file:\n"
        "        file.write(b'x'), file.flush()\n        return {'name': file.name}\n"
    )
    request = json.dumps({"memory_bytes": 2**34, "order": {}}).encode() + b"\n"
    with small_disk(tmp_path / "scratch", size_bytes=2**16) as disk:
        fill_up(disk)
        environment = {**os.environ, "TMPDIR": str(disk)}
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
        argv = [sys.executable, "-m", "worker.contained", "temporary"]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            process.stdin.write(request)
            process.stdin.flush()
            assert json.loads(process.stdout.read()) == {"no_space": True}
