"""For which device a checkout is set up, with which compiler, and the sentences if that is not possible."""

from pathlib import Path

import pytest

from set_up_gpu import (
    WHEELS,
    Compiler,
    Driver,
    Kind,
    Plan,
    Refused,
    architectures,
    build_variables,
    compiler_for,
    plan_for,
)

NEW, OLD, ANCIENT = Driver(2, "580.65.06"), Driver(2, "550.54.15"), Driver(1, "470.256.02")
TOOLKIT = Compiler("12.5", "/usr/local/cuda")
NO_CARD = Driver(0, "550.54.15")
OLD_WITH_WHEELS = (
    "The NVIDIA driver 550.54.15 cannot run code from NVIDIA's wheels of CUDA 13.0. Update the driver to 580 or newer, "
    "or install the CUDA 12.5 toolkit (found as HOROVOD_CUDA_HOME, /usr/local/cuda or `nvcc` on PATH)."
)


@pytest.mark.parametrize(
    ("device", "held", "driver", "plan"),
    [
        # A new environment is for the cards, if there are any.
        ("", None, None, Plan("cpu")),
        ("auto", None, NO_CARD, Plan("cpu")),
        ("", None, NEW, Plan("gpu", WHEELS)),
        ("cpu", None, NEW, Plan("cpu")),
        ("gpu", None, None, Plan("gpu", WHEELS)),
        # One that is there stays what it is, unless HORA_DEVICE is explicit.
        ("", "cpu", None, Plan("cpu")),
        ("", "gpu", None, Plan("gpu", WHEELS)),
        ("auto", "gpu", NEW, Plan("gpu", WHEELS)),
        ("cpu", "gpu", NEW, Plan("cpu")),
        ("gpu", "cpu", NEW, Plan("gpu", WHEELS)),
    ],
)
def test_device_and_cards_decide_the_kind(device: str, held: Kind | None, driver: Driver | None, plan: Plan) -> None:
    assert plan_for(device, held=held, driver=driver, toolkit=None) == plan


@pytest.mark.parametrize("held", [None, "cpu"])
def test_a_driver_that_does_not_fit_means_cpus_by_default_and_a_refusal_if_asked_for_gpus(held: Kind | None) -> None:
    plan = plan_for("auto", held=held, driver=OLD, toolkit=None)
    assert (plan.kind, plan.compiler) == ("cpu", None)
    cards = "This machine has 2 NVIDIA cards, but .venv is for CPUs."
    assert plan.hint == f"{cards} {OLD_WITH_WHEELS} Then run `HORA_DEVICE=gpu make setup`."
    for device in ("", "auto"):
        fits = plan_for(device, held="cpu", driver=NEW, toolkit=None)
        assert (fits.kind, fits.compiler) == ("cpu", None)
        assert fits.hint == f"{cards} `HORA_DEVICE=gpu make setup` replaces it."
    with pytest.raises(Refused) as refused:
        plan_for("gpu", held=held, driver=OLD, toolkit=None)
    assert str(refused.value) == OLD_WITH_WHEELS
    with pytest.raises(Refused, match=r"^HORA_DEVICE is 'cuda'. It can be auto, gpu or cpu.$"):
        plan_for("cuda", held=held, driver=None, toolkit=None)
    assert plan_for("gpu", held=held, driver=OLD, toolkit=TOOLKIT) == Plan("gpu", TOOLKIT)
    assert compiler_for(NEW, TOOLKIT) == compiler_for(None, TOOLKIT) == TOOLKIT, "it comes before the wheels"


NO_WAY = "The NVIDIA driver 470.256.02 cannot run CUDA 12, which TensorFlow needs."


@pytest.mark.parametrize(
    ("driver", "toolkit", "sentence"),
    [
        (OLD, None, OLD_WITH_WHEELS),
        (OLD, ("13.1", "/opt/cuda"), "The NVIDIA driver 550.54.15 cannot run code from CUDA 13.1 in /opt/cuda."),
        (ANCIENT, None, f"{NO_WAY} Update the driver to 580"),
        (ANCIENT, ("12.5", "/usr/local/cuda"), NO_WAY),
        (Driver(1, "garbage"), None, "The NVIDIA driver garbage cannot run CUDA 12"),
        (None, ("11.8", "/opt/cuda"), "HOROVOD_CUDA_HOME is /opt/cuda, which has CUDA 11.8. Horovod needs CUDA 12"),
        (None, ("", "/nowhere"), "HOROVOD_CUDA_HOME is /nowhere, which has no bin/nvcc that runs."),
    ],
)
def test_what_does_not_fit_is_refused(driver: Driver | None, toolkit: tuple[str, str] | None, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        compiler_for(driver, toolkit and Compiler(*toolkit))
    assert str(refused.value).startswith(sentence)


def test_horovod_is_built_with_the_compiler_and_the_nccl_of_the_wheels_for_the_chosen_architectures() -> None:
    variables = build_variables(WHEELS, Path("/wheels/nvidia"), {})
    assert variables["HOROVOD_CUDA_HOME"] == "/wheels/nvidia/cu13"
    assert variables["HOROVOD_NCCL_HOME"] == "/wheels/nvidia/nccl"
    assert variables["HOROVOD_BUILD_CUDA_CC_LIST"] == "75,80,86,89,90,100,120"
    with_toolkit = build_variables(TOOLKIT, Path("/wheels/nvidia"), {})
    assert with_toolkit["HOROVOD_CUDA_HOME"] == "/usr/local/cuda"
    assert with_toolkit["HOROVOD_NCCL_HOME"] == "/wheels/nvidia/nccl"
    assert architectures(TOOLKIT, {"HOROVOD_BUILD_CUDA_CC_LIST": "90"}) == "90"
    assert architectures(TOOLKIT, {"HOROVOD_BUILD_CUDA_CC_LIST": ""}) == "60,70,75,80,86,89,90"
