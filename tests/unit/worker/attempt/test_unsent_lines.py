"""What ranks wrote on storage that all hosts share, and the lead did not get."""

from pathlib import Path

from worker.attempt.paths import paths_of
from worker.attempt.unsent_lines import take_unsent_lines


def test_the_rest_of_each_file_of_a_rank_is_taken_once(tmp_path: Path) -> None:
    paths = paths_of(tmp_path, "j", 1)
    paths.create()
    there = paths.of_member("n2")
    for folder in (there.records, there.logs):
        folder.mkdir(parents=True)
    (there.records / "rank-1.jsonl").write_bytes(b'{"a": 1}\n{"b": 2}\n')
    (there.logs / "rank-1.log").write_bytes(b"all of it\n")
    (there.records / "rank-1.note").write_bytes(b"no lines")
    (paths.records / "rank-1.jsonl").write_bytes(b'{"a": 1}\n{"b')
    (paths.records / "rank-0.jsonl").write_bytes(b"{}\n")
    for _ in range(2):
        take_unsent_lines(paths)
        assert (paths.records / "rank-1.jsonl").read_bytes() == b'{"a": 1}\n{"b": 2}\n'
        assert (paths.logs / "rank-1.log").read_bytes() == b"all of it\n"
        assert (paths.records / "rank-0.jsonl").read_bytes() == b"{}\n"
        assert not (paths.records / "rank-1.note").exists()
