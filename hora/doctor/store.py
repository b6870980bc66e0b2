"""The checks of `hora doctor` of the store (`HORA_STORE`), as this machine reaches it. `bucket` judges rules of S3."""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hora.doctor import bucket
from hora.doctor.cluster import TIME_SERVER
from hora.doctor.findings import Finding
from hora.home import Home
from hora.render.text import duration

if TYPE_CHECKING:
    from jobs.copies.store import Store
    from jobs.runtime.settings import Settings

_SKEW_S = 60.0  # S3 refuses requests beyond 15 min
_REACH = "Correct HORA_STORE, HORA_STORE_OPTIONS and the credentials, and let them read, write, list and remove there."
_PATIENCE_S = 5.0
# Values of options, and variables of the environment, that may be shown.
_PLAIN = frozenset({"endpoint_url", "region_name", "addressing_style", "signature_version", "mode"})
_SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
)


def store_findings(home: Path) -> Iterator[Finding]:
    """The store answers, is the one of this stack, and keeps what it gets. Nothing if there is no store."""
    from jobs.runtime.settings import Settings

    try:
        settings = Settings()
    except ValueError:
        return  # `data_roots` names the wrong setting
    if settings.store is None:
        return
    try:
        from jobs.copies.store import StoreAway, store_of
    except ImportError:
        yield Finding("store", "fail", "what opens stores is not installed", "Install hora[store].")
        return
    try:
        store = store_of(settings)
    except StoreAway as error:
        yield Finding(
            "store", "fail", _shown(f"it cannot be opened: {error}", settings), f"Install hora[store]. {_REACH}"
        )
        return
    assert store is not None
    for finding in _of(store, settings, home):
        found = _shown(finding.found, settings)
        yield Finding(finding.check, finding.level, found, finding.advice)


def _of(store: "Store", settings: "Settings", home: Path) -> Iterator[Finding]:
    from jobs.copies.store import StoreAway

    yield from _folder(store, home)
    if store.bucket is not None:
        with suppress(StoreAway):  # the check below says it
            yield from clock(store.ask_bucket("get_bucket_versioning"))
    try:
        mark = _mark(store, settings, home)
        if mark.level == "fail":
            yield mark
            return
        problem = _tried(store)
    except StoreAway as error:
        yield Finding("store", "fail", f"{store.url}: {error}", _REACH)
        return
    if problem is not None:
        yield Finding("store", "fail", f"{store.url}: {problem}", _REACH)
        return
    yield Finding("store", "ok", f"{store.url}: a file was written, read, listed and removed")
    yield mark
    if store.bucket is not None:
        with suppress(StoreAway):
            yield from bucket.rule_findings(store, keep_days=settings.keep_artifacts_days)


def _folder(store: "Store", home: Path) -> Iterator[Finding]:
    """A folder is on a disk that outlives this machine, as far as that can be seen."""
    if store.folder is None:
        return
    folder = next(above for above in (store.folder, *store.folder.parents) if above.exists())
    shared = [str(path) for path in (Path("/"), home) if path.exists() and _is_on_one_disk(folder, path)]
    if shared:
        found = f"{store.folder} is on the file system of {' and '.join(shared)}: it does not outlive this machine"
        yield Finding("store", "warn", found, "Mount another disk there, or set HORA_STORE to one that is mounted.")


def _is_on_one_disk(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev


def clock(answer: dict[str, Any]) -> Iterator[Finding]:
    """The clock of this machine agrees with that of the store: S3 refuses requests that are 15 minutes off."""
    date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        apart_s = abs((parsedate_to_datetime(date) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return  # the server does not say
    if apart_s > _SKEW_S:
        yield Finding("store clock", "warn", f"this machine and the store are {duration(apart_s)} apart", TIME_SERVER)


def _mark(store: "Store", settings: "Settings", home: Path) -> Finding:
    """The store has the mark that it got when the stack first used it. Raises `StoreAway`."""
    from jobs.copies.marks import MARK, has_mark

    if has_mark(store):
        return Finding("store mark", "ok", f"{MARK} is there")
    since = _marked_at(store, settings, home)
    if isinstance(since, datetime):
        found = f"{store.url}: {MARK} is gone, which was written on {since:%Y-%m-%d}"
        advice = "The store was emptied, or is not mounted. Mount it, or bring back its files."
        return Finding("store mark", "fail", found, advice)
    if since == "unknown":
        found = f"there is no {MARK}, and this machine cannot ask the database whether there was"
        advice = "If the stack has used this store before, it was emptied, or is not mounted."
        return Finding("store mark", "warn", found, advice)
    return Finding("store mark", "ok", "this stack has not used the store yet; its first worker marks it")


def _marked_at(store: "Store", settings: "Settings", home: Path) -> datetime | str:
    """When the store got its mark, by the database; `never`, or `unknown` if that cannot be asked from here."""
    is_set = "database_url" in settings.model_fields_set
    url = settings.database_url if is_set else Home.at(home).read_state().database_url
    if url is None:
        return "unknown"
    try:
        from sqlalchemy.exc import SQLAlchemyError

        from jobs.copies.marks import marked_at
        from jobs.db.engine import engine_for, sessions_for
    except ImportError:
        return "unknown"
    engine = engine_for(url, pool_size=1, patience_s=_PATIENCE_S)
    try:
        with sessions_for(engine)() as session:
            return marked_at(session, store) or "never"
    except SQLAlchemyError:
        return "unknown"
    finally:
        engine.dispose()


def _tried(store: "Store") -> str | None:
    """What goes wrong when a small file is written, read, listed and removed. None: nothing."""
    from jobs.copies.store import NotInStore, StoreAway

    folder = f"checks/{secrets.token_hex(8)}"
    key, content, step = f"{folder}/doctor", secrets.token_bytes(32), "written"
    try:
        store.write(key, content)
        step = "read"
        if store.read(key) != content:
            return "a file has another content than was written"
        step = "listed"
        if [file.key for file in store.files(folder)] != [key]:
            return "a file that was written is not listed"
        step = "removed"
        store.remove_below(folder)
        return "a file that was removed is still listed" if store.files(folder) else None
    except NotInStore:
        return "a file that was written is not there"
    except StoreAway as error:
        return f"a file cannot be {step}: {error}"
    finally:
        if step != "removed":
            with suppress(StoreAway):
                store.remove([key])


def _shown(text: str, settings: "Settings") -> str:
    """A text without credentials, whatever the driver wrote into it."""
    hidden = [*_secrets(settings.store_driver_options), *filter(None, map(os.environ.get, _SECRET_VARIABLES))]
    for secret in sorted((one for one in hidden if one not in str(settings.store)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return re.sub(r"(?<=//)[^/@\s]+@", "***@", text)


def _secrets(options: Any, name: str = "") -> Iterator[str]:
    """The texts among the values of options, except those that are never secret."""
    if isinstance(options, dict):
        for key, value in options.items():
            yield from _secrets(value, key)
    elif isinstance(options, list):
        for value in options:
            yield from _secrets(value, name)
    elif isinstance(options, str) and len(options) > 3 and name not in _PLAIN:
        yield options
