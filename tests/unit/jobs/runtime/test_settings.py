"""The operator's settings, as the processes read them."""

import pytest
from pydantic import ValidationError

from jobs import wording
from jobs.runtime.settings import _WORDS, Settings, in_sentences, misspelt_in, settings


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("", []),
        ("/data", ["/data"]),
        ("/data:/mnt/sets/", ["/data", "/mnt/sets"]),
        ("/data:s3://bucket/sets", ["/data", "s3://bucket/sets"]),
        ("s3://bucket/sets:/data:memory://x", ["s3://bucket/sets", "/data", "memory://x"]),
        ("https://host:8080/sets:/data", ["https://host:8080/sets", "/data"]),
        (":/data::", ["/data"]),
        ("share", ["/usr/share"]),
    ],
)
def test_data_roots_are_urls_and_folders_that_are_the_same_for_every_process(
    monkeypatch: pytest.MonkeyPatch, text: str, roots: list[str]
) -> None:
    monkeypatch.chdir("/usr")
    assert Settings(data_roots=text).data_root_list == roots


def test_each_model_is_written_as_module_and_function() -> None:
    assert Settings(models="acme.nets:wide, acme.nets:deep,").model_list == ["acme.nets:wide", "acme.nets:deep"]
    assert Settings().model_list == []
    for wrong in ("acme.nets", "acme.nets:", "acme-nets:wide", "acme.nets:wide()", "a:b;c:d"):
        with pytest.raises(ValidationError, match="write each model as module:function"):
            Settings(models=wrong)


@pytest.mark.parametrize("slots", [0, 3])
def test_a_host_may_offer_no_cpu_slots(slots: int) -> None:
    assert Settings(slots=slots).cpu_slots == slots


@pytest.mark.parametrize(
    "url",
    [
        "redis://redis:6379/0", "redis://10.0.0.5", "rediss://broker.example.org:6380/1", "redis://user@10.0.0.5",
        "redis://0.0.0.0:6379", "redis://[fd00::5]:6379", "redis://:@10.0.0.5",
    ],
)  # fmt: skip
def test_a_broker_on_the_network_needs_a_password(url: str) -> None:
    with pytest.raises(ValidationError, match="has no password"):
        Settings(broker_url=url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost:6379/0", "redis://127.0.0.1", "redis://[::1]:6379", "redis+socket:///run/broker.sock",
        "redis://:secret@redis:6379/0", "rediss://user:secret@10.0.0.5", "memory://",
    ],
)  # fmt: skip
def test_a_broker_on_loopback_needs_no_password(url: str) -> None:
    assert Settings(broker_url=url).broker_url == url


def test_wrong_settings_end_the_process_by_name_without_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_BROKER_URL", "redis://t0p-secret@10.0.0.5/0")
    monkeypatch.setenv("HORA_PORT", "t0p")
    settings.cache_clear()
    with pytest.raises(SystemExit) as ended:
        settings()
    settings.cache_clear()
    assert "HORA_BROKER_URL: " in str(ended.value.code)
    assert "HORA_PORT: " in str(ended.value.code)
    assert "t0p" not in str(ended.value.code)


def test_a_wrong_choice_is_answered_with_the_similar_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_DEVICE", "gpuu")
    monkeypatch.setenv("HORA_HOST_NAME", "a b")
    with pytest.raises(ValidationError) as refused:
        Settings()
    device, host = in_sentences(refused.value).split("; HORA_HOST_NAME")
    assert device == "HORA_DEVICE: must be 'auto', 'gpu' or 'cpu'; did you mean 'gpu'?"
    assert host.startswith(": must be the name of a host")


def test_each_pattern_of_a_setting_has_words() -> None:
    properties = Settings.model_json_schema()["properties"].values()
    ways = [way for each in properties for way in [each, *each.get("anyOf", [])]]
    patterns = {way["pattern"] for way in ways if "pattern" in way}
    assert len(patterns) > 4
    assert patterns <= _WORDS.keys() | wording._WORDS_BY_PATTERN.keys()


def test_a_variable_that_looks_like_a_setting_is_found() -> None:
    environ = ["HORA_SLOT", "HORA_SLOTS", "HORA_URL", "HORA_FOO", "HORA_RUN_FILE", "HORA_DATA", "PATH", "HORA_BIND"]
    assert misspelt_in(environ) == ["HORA_SLOT has no effect: there is no such setting; did you mean HORA_SLOTS?"]


NUMBERS = [name for name, field in Settings.model_fields.items() if field.annotation in (float, float | None)]


BOUNDED = {"lease_s", "sample_period_s", "keep_files_days", "inspection_memory_gb"}


@pytest.mark.parametrize("name", [*NUMBERS, "slots"])
def test_a_number_is_finite_and_not_negative_and_durations_and_sizes_are_bounded(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert set(NUMBERS) >= BOUNDED
    for value in ("inf", "nan", "-1", "a", *(("1e300", "0") if name in BOUNDED else ())):
        monkeypatch.setenv(f"HORA_{name.upper()}", value)
        with pytest.raises(ValidationError, match=name):
            Settings()
