"""Everything that goes on after its request has a line in `lasting`.

`tests/integration/live` tests that each stream ends with its token, `test_rights_now` the checks of jobs and webhooks.
"""

import importlib
import pkgutil

import worker
from api.live import feed, topics
from jobs.db.tables import Base
from tests.integration.api.rights.lasting import ROWS_OF_USERS, STREAMS, THREADS
from worker.periodic import PeriodicThread

NAMES_OF_USERS = {"owner", "author", "actor", "user_name", "created_by"}


def subclasses(of: type) -> set[type]:
    """All classes below a class."""
    return {each for child in of.__subclasses__() for each in ({child} | subclasses(child))}


def test_every_table_with_a_user_says_what_its_rows_do_later() -> None:
    tables = {
        table.name
        for table in Base.metadata.sorted_tables
        for column in table.columns
        if column.name in NAMES_OF_USERS or any(key.column.table.name == "users" for key in column.foreign_keys)
    }

    assert tables == set(ROWS_OF_USERS)


def test_every_stream_and_every_thread_says_in_whose_name_it_acts() -> None:
    for module in pkgutil.walk_packages(worker.__path__, "worker."):
        if not module.name.endswith("__main__") and module.name != "worker.horovodrun":
            importlib.import_module(module.name)
    assert feed.FeedTopic in subclasses(topics.Topic)

    streams = {each.__name__ for each in subclasses(topics.Topic) if each.__module__.startswith("api.")}
    threads = {each.__name__ for each in subclasses(PeriodicThread) if each.__module__.startswith("worker.")}
    assert streams == set(STREAMS)
    assert threads == set(THREADS)
