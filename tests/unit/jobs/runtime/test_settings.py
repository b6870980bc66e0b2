"""The operator's settings, as the processes read them; also the prices and the variables of ranks."""

import pytest
from pydantic import ValidationError

from jobs import wording
from jobs.runtime.prices import Prices, prices_from
from jobs.runtime.rank_variables import rank_variables
from jobs.runtime.settings import _WORDS, Settings, in_sentences, misspelt_in, settings


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("", []),
        ("/data:s3://bucket/sets", ["/data", "s3://bucket/sets"]),
        ("s3://bucket/sets:/data:memory://x", ["s3://bucket/sets", "/data", "memory://x"]),
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


OPEN_BROKERS = [
    "redis://redis:6379/0", "redis://10.0.0.5", "rediss://broker.example.org:6380/1", "redis://user@10.0.0.5",
    "redis://0.0.0.0:6379", "redis://[fd00::5]:6379", "redis://:@10.0.0.5",
]  # fmt: skip
BROKERS = [
    "redis://localhost:6379/0", "redis://127.0.0.1", "redis://[::1]:6379", "redis+socket:///run/broker.sock",
    "redis://:secret@redis:6379/0", "rediss://user:secret@10.0.0.5", "memory://",
]  # fmt: skip


def test_a_broker_needs_a_password_except_on_loopback() -> None:
    for url in OPEN_BROKERS:
        with pytest.raises(ValidationError, match="has no password"):
            Settings(broker_url=url)
    for url in BROKERS:
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


@pytest.mark.parametrize(
    ("text", "prices"),
    [
        ("", None),
        ("2.5", Prices({}, 2.5)),
        (" default = 2.5, H100=3.9,cpu=0.04,", Prices({"h100": 3.9, "cpu": 0.04}, 2.5)),
    ],
)
def test_a_price_is_for_all_or_for_a_model(text: str, prices: Prices | None) -> None:
    assert prices_from(text) == Settings(gpu_hour_price=text).prices == prices


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2.5,h100=3", "write each price as MODEL=NUMBER, not '2.5'; default=NUMBER is for all others"),
        ("h100", "the price of 'default' is no number: 'h100'"),
        ("=3", "'' is no part of a model's name"),
        ("h100=3,H100=4", "'h100' has two prices"),
        ("h100=-1", "the price of 'h100' must be from 0 to 1,000,000, not '-1'"),
    ],
)
def test_a_wrong_price_is_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(ValidationError, match="gpu_hour_price") as error:
        Settings(gpu_hour_price=text)
    assert problem in str(error.value)


PRICES = Prices({"a100": 2.0, "a100-sxm4-80gb": 3.0, "cpu": 0.04}, 1.0)


@pytest.mark.parametrize(
    ("device", "price"),
    [
        ("NVIDIA A100-PCIE-40GB", 2.0),
        ("NVIDIA A100-SXM4-80GB", 3.0),
        ("Tesla T4", 1.0),
        ("cpu", 0.04),
        ("a GPU with cpu in its name", 1.0),
        (None, 1.0),
    ],
)
def test_the_longest_part_of_a_models_name_counts(device: str | None, price: float) -> None:
    assert PRICES.of(device) == price


def test_a_sum_is_unknown_if_one_slot_has_no_price() -> None:
    assert PRICES.of_all(["cpu", "Tesla T4", "NVIDIA A100"]) == pytest.approx(3.04)
    only_cpus = Prices({"cpu": 0.04})
    assert only_cpus.of_all(["cpu", "Tesla T4"]) is None
    assert only_cpus.of_all([None]) is None
    assert only_cpus.of_all(["cpu", "cpu"]) == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("", {}),
        ("NCCL_DEBUG=INFO", {"NCCL_DEBUG": "INFO"}),
        (
            "NCCL_IB_HCA=mlx5_0,mlx5_1, NCCL_DEBUG=INFO,HOROVOD_CYCLE_TIME=1",
            {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_DEBUG": "INFO", "HOROVOD_CYCLE_TIME": "1"},
        ),
        ("NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1"}),
        ("NCCL_TOPO_FILE=/a b'\"$(x).xml,NCCL_P2P_LEVEL=", {"NCCL_TOPO_FILE": "/a b'\"$(x).xml", "NCCL_P2P_LEVEL": ""}),
    ],
)
def test_each_variable_is_a_name_and_a_value_that_may_contain_commas(text: str, variables: dict[str, str]) -> None:
    assert rank_variables(text) == Settings(rank_env=text).rank_variables == variables


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NCCL_DEBUG", "write each variable as KEY=value, not 'NCCL_DEBUG'"),
        ("NCCL_DEBUG=INFO,PATH=/tmp", "'PATH' is not allowed: names begin with NCCL_ or HOROVOD_"),
        ("NCCL_DEBUG=INFO,nccl_debug=WARN", "'nccl_debug' is not a name of capital letters"),
        ("NCCL_DEBUG=a\nb", "'NCCL_DEBUG' has a control character in its value"),
        ("NCCL_DEBUG=INFO,NCCL_DEBUG=WARN", "NCCL_DEBUG is there twice"),
        ("NCCL_SOCKET_IFNAME=eth0", "HORA_NETWORK_INTERFACE chooses the interface"),
        *(
            (f"HOROVOD_{name}=1", f"'HOROVOD_{name}' is not allowed: Hora sets it for each rank")
            for name in ("RANK", "GLOO_TIMEOUT_SECONDS", "SECRET_KEY")
        ),
    ],
)  # fmt: skip
def test_other_variables_are_refused_by_name(text: str, problem: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings(rank_env=text)
    assert problem in str(refused.value)


def test_every_variable_that_horovods_launcher_sets_is_refused() -> None:
    from horovod.runner import gloo_run
    from horovod.runner.common.util.hosts import SlotInfo

    of_slot = gloo_run.create_slot_env_vars(SlotInfo("h", 0, 0, 0, 1, 1, 1))
    of_run = gloo_run.create_run_env_vars("10.0.0.1", ["eth0"], 1, elastic=True)
    for name in of_slot | of_run:
        with pytest.raises(ValueError, match=name):
            rank_variables(f"{name}=1")
