"""Tables of PyFlink with the connector ``atp``, for tests: on loopback and without a daemon."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from pathlib import Path
from typing import Any

import atp
from pyflink.common import Row
from pyflink.table import EnvironmentSettings, TableEnvironment, TableResult

COLUMNS = """
    room INT, temperature DOUBLE,
    atp_n BIGINT METADATA, atp_delivered BIGINT METADATA, atp_weight DOUBLE METADATA,
    atp_window ROW<window_number BIGINT, window_part BIGINT, window_start TIMESTAMP_LTZ(3),
                   window_end TIMESTAMP_LTZ(3)> METADATA,
    atp_group STRING METADATA, atp_stratum STRING METADATA,
    atp_topic STRING METADATA, atp_partition BIGINT METADATA, atp_offset BIGINT METADATA,
    atp_timestamp TIMESTAMP_LTZ(3) METADATA,
    WATERMARK FOR atp_timestamp AS SOURCE_WATERMARK()
"""
# Event time of the first record, in seconds: a window begins there.
BEGIN_S = 1_700_000_000
_ports = itertools.count(5_000)


def bundle() -> Path:
    """That of ``cargo xtask jar``: the environment lies in the same folder."""
    (jar,) = Path(sys.prefix).parent.glob("jars/atp-flink-*-bundle.jar")
    return jar


def address() -> str:
    """An address of the loopback that no other process has: its id is in it."""
    pid = os.getpid()
    return f"127.{128 | pid >> 16 & 127}.{pid >> 8 & 255}.{pid & 255}:{next(_ports)}"


def new_tables() -> TableEnvironment:
    return prepared(TableEnvironment.create(EnvironmentSettings.in_streaming_mode()))


def prepared(tables: TableEnvironment) -> Any:
    config = tables.get_config()
    config.set("pipeline.jars", bundle().resolve().as_uri())
    config.set("parallelism.default", "1")
    config.set("table.local-time-zone", "UTC")
    return tables


def create(tables: TableEnvironment, name: str, columns: str, **options: object) -> None:
    """Makes a table of the connector. Underscores in names of options are hyphens."""
    given = {"connector": "atp", "format": "json", "daemon": "none"} | options
    pairs = [f"'{key.replace('_', '-')}' = '{value}'" for key, value in given.items()]
    tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({', '.join(pairs)})")


class Sender(threading.Thread):
    """Sends windows of a second to ``peer``, each with ``records`` records. Temperatures are 0 to
    9, and rooms 0 to 3."""

    def __init__(self, peer: str, records: int, windows: int, **options: Any) -> None:
        super().__init__(name="sender", daemon=True)
        self._peer, self._records, self._windows = peer, records, windows
        limits = {"control_socket": None, "peer_timeout": 60.0}
        self._options: dict[str, Any] = limits | options
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        group = next(iter(self._options.get("groups", [])), None)
        try:
            with atp.kafka.WindowSender(
                self._peer, topic="readings", length=1.0, watermark_delay=0.0, **self._options
            ) as sender:
                for offset in range(self._records * self._windows):
                    value = f'{{"room": {offset % 4}, "temperature": {offset % 10}}}'
                    time_s = BEGIN_S + offset / self._records
                    sender.send(offset, value, timestamp=time_s, group=group)
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Waits until all windows are confirmed: the query must still run."""
        self.join(60.0)
        assert not self.is_alive(), "the sender hasn't ended after 60 s"
        assert self._error is None, repr(self._error)


def take(result: TableResult, number: int, sender: Sender | None = None) -> list[Row]:
    """The first rows of a query that has no end. The query ends once the sender has."""
    with result.collect() as rows:
        taken = list(itertools.islice(rows, number))
        if sender is not None:
            sender.check()
    return taken
