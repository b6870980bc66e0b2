"""Prints the OpenAPI document of the service: `python -m api.document`. The dashboard's types are made from it."""

import json
import sys
from typing import Any

from api.main import app_for
from jobs.runtime.settings import Settings


def document() -> dict[str, Any]:
    """The OpenAPI document, without a database."""
    return app_for(Settings(database_url="postgresql://hora@/hora", broker_url="memory://")).openapi()


if __name__ == "__main__":
    json.dump(document(), sys.stdout)
