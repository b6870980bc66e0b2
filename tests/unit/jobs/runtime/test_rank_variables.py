"""The variables of HORA_RANK_ENV: what is taken, and what is refused by name."""

import pytest
from pydantic import ValidationError

from jobs.runtime.rank_variables import rank_variables
from jobs.runtime.settings import Settings


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("", {}),
        (" ", {}),
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
        ("NCCL_X;touch /tmp/x;=1", "'NCCL_X;touch /tmp/x;' is not a name of capital letters"),
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
