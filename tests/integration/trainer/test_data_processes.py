"""Reading data in separate processes: with a shared disk cache, with few threads, and in little memory."""

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.archives import write_files
from tests.pictures import numbered


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Twenty files of 100 bytes."""
    return write_files(tmp_path / "source", {f"{number}": bytes([number]) * 100 for number in range(20)})


def test_four_processes_at_once_stay_within_the_limit_and_fetch_nothing_twice(tmp_path: Path, source: Path) -> None:
    script = f"""
        import random, sys
        from pathlib import Path
        from fsspec.implementations.local import LocalFileSystem
        from trainer.data.cache import DiskCache
        class Logging(LocalFileSystem):
            def get_file(self, path, target, **kwargs):
                print(path, flush=True)
                super().get_file(path, target, **kwargs)
        kept, files = DiskCache(Path({str(tmp_path / "cache")!r}), 1250), Logging()
        names = [str(number) for number in range(20)] * 20
        random.Random(sys.argv[1]).shuffle(names)
        for name in names:
            assert kept.read(files, {str(source)!r} + "/" + name) == bytes([int(name)]) * 100
    """
    argv = [sys.executable, "-c", textwrap.dedent(script)]
    running = [subprocess.Popen([*argv, str(number)], stdout=subprocess.PIPE, text=True) for number in range(4)]
    fetched = [line for process in running for line in process.communicate()[0].splitlines() if line.startswith("/")]
    assert [process.returncode for process in running] == [0] * 4
    copies = [path for path in (tmp_path / "cache").iterdir() if path.name not in {"lock", "used"}]
    assert len(fetched) == len(set(fetched)) == len(copies) == 12
    assert int((tmp_path / "cache" / "used").read_text()) == 1200


def test_images_are_read_ahead_in_order_with_deterministic_ops_and_one_thread(tmp_path: Path) -> None:
    """With deterministic ops TensorFlow may turn off prefetching, so that one waits for each image."""
    for number, content in enumerate(numbered(8, 4)):
        (tmp_path / f"{number}").write_bytes(content)
    program = """
        import sys
        import numpy as np
        import tensorflow as tf
        from tests.waiting import until
        from trainer.data.images.decode import decoded

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.experimental.enable_op_determinism()
        drawn = []

        def source():
            for number in range(20):
                drawn.append(number)
                yield np.arange(8), [f"{sys.argv[1]}/{image}" for image in range(8)]

        reading = decoded(source(), kind="paths", shape=(6, 6, 1), resize=True, threads=2)
        tags, pixels = next(reading)
        assert pixels[:, 0, 0, 0].tolist() == list(range(8)), pixels
        until(lambda: len(drawn) >= 3)
        assert len(drawn) < 20
        assert len(list(reading)) == 19
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    table = pa.table(
        {f"x{column}": np.random.default_rng(column).normal(size=100_000).astype(np.float32) for column in range(50)}
        | {"label": np.arange(100_000) % 2}
    )  # 20 MB, five times
    for number in range(5):
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=5000)
    script = f"""
        import resource
        from pathlib import Path
        from tests.tables import part
        from trainer.data.parquet import windows
        from trainer.data.interfaces import SampleSchedule
        windows.WINDOW_BYTES = 4 * 2**20
        opened = part(".", Path({str(tmp_path)!r}))
        batches = opened.train(SampleSchedule(500_000, 0, 1, 1000, 500, 1), epoch=1, first=0)
        def peak_mb(steps):
            for _ in range(steps):
                next(batches)
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        early = peak_mb(150)
        print(peak_mb(850) - early)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True)
    assert float(done.stdout.splitlines()[-1]) < 50
