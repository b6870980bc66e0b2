"""What the command line says of alerts, from the API's JSON: sentences, with what people wrote in them. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hora.render.text import ago, plain


def alert_text(alert: Mapping[str, Any]) -> str:
    """error: val_loss > 3: val_loss is 4.2 in epoch 4."""
    parts = [str(alert[name]) for name in ("level", "title", "text") if alert.get(name)]
    return plain(" ".join(": ".join(parts).split()))


def alerts_text(job: Mapping[str, Any], now: datetime | None = None) -> str | None:
    """How many alerts a job has, and the newest; None: it has none.

    2, the newest 5 minutes ago: error: val_loss > 3: val_loss is 4.2 in epoch 4
    """
    last = job.get("last_alert")
    if not last:
        return None
    count = "" if job["alerts"] == 1 else f"{job['alerts']}, the newest "
    return f"{count}{ago(last['at'], now)}: {alert_text(last)}"
