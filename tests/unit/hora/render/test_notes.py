"""Notes, stars and cells of jobs, as the command line shows them."""

from hora.render.jobs import jobs_table
from hora.render.notes import first_lines
from hora.render.places import place_in_study
from tests.unit.hora.played import job


def test_the_first_lines_of_notes_are_shown_and_said_to_be_cut() -> None:
    assert first_lines("# Why\n\nit \x1b]0;x\x07 diverged \u202e") == "# Why\nit \\x1b]0;x\\x07 diverged \\u202e"
    cut = "… (`hora note` prints all)"
    assert first_lines("\n".join(map(str, range(6)))) == f"0\n1\n2\n3\n4\n{cut}"
    assert first_lines("x" * 201) == f"{'x' * 200}\n{cut}"


def test_the_place_of_a_job_in_its_study_has_the_values_of_its_cell() -> None:
    place = {"study": "0abc", "study_cell": 2, "study_repeat": 1}
    values = {"gpus": 2, "model.name": "mlp", "params": {"a": "\x07"}}
    assert place_in_study({"study": None}) is None
    assert place_in_study(place) == "0abc, cell 3, repeat 2"
    expected = r'0abc, cell 3, repeat 2: gpus=2 model.name=mlp params={"a": "\u0007"}'
    assert place_in_study(place | {"study_values": values}) == expected


def test_a_list_shows_stars_and_a_column_of_studies_if_there_are_any() -> None:
    alone = jobs_table([job(name="a"), job(name="b", starred=True)])
    assert [column.header for column in alone.columns][:3] == ["ID", "NAME", "STATUS"]
    assert list(alone.columns[1].cells) == ["a", "★ b"]
    together = jobs_table([job(name="a", study="0abc"), job(name="b")])
    assert [column.header for column in together.columns][:3] == ["ID", "NAME", "STUDY"]
    assert list(together.columns[2].cells) == ["0abc", "-"]
