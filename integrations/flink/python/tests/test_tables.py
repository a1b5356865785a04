"""Tables of PyFlink read windows and send them, with the bundle as people have it."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.table import DataTypes, StreamTableEnvironment
from pyflink.table.udf import udf

from flink_tables import COLUMNS, Sender, address, create, new_tables, prepared, take

RECORDS = 1_000


@udf(result_type=DataTypes.DOUBLE())
def fahrenheit(celsius: float) -> float:
    return celsius * 1.8 + 32


def test_rows_have_their_window() -> None:
    tables, peer = new_tables(), address()
    create(tables, "readings", COLUMNS, listen=peer)
    result = tables.execute_sql(
        """SELECT atp_window.window_number, room, temperature, atp_n, atp_delivered, atp_weight,
                  atp_group, atp_stratum, atp_topic, atp_partition, atp_offset,
                  CAST(atp_timestamp AS TIMESTAMP(3))
           FROM readings"""
    )
    arrived: Counter[int] = Counter()
    delivered: dict[int, int] = {}
    seen: set[int] = set()
    sender = Sender(peer, RECORDS, 2, groups={"rooms": 0.5})
    with result.collect() as rows:
        # Both windows are there once as many rows have come as each says.
        while len(delivered) < 2 or delivered != arrived:
            number, room, temperature, n, here, weight, group, stratum, *origin = next(rows)
            topic, partition, offset, timestamp = origin
            assert (room, temperature) == (offset % 4, offset % 10)
            assert (n, group, topic, partition) == (RECORDS, "rooms", "readings", 0)
            assert math.isclose(weight, RECORDS / here)
            assert "/readings/" in stratum
            assert isinstance(timestamp, datetime)
            assert timestamp.microsecond // 1_000 == offset % RECORDS
            assert offset not in seen
            assert delivered.setdefault(number, here) == here
            seen.add(offset)
            arrived[number] += 1
        sender.check()
    assert all(math.ceil(0.5 * RECORDS) <= here <= RECORDS for here in delivered.values())


def test_estimates_of_whole_windows_are_exact() -> None:
    tables, peer = new_tables(), address()
    create(tables, "readings", COLUMNS, listen=peer)
    for name in ("AtpAvg", "AtpSum", "AtpCount"):
        tables.execute_sql(
            f"CREATE TEMPORARY FUNCTION {name} AS 'org.netapprox.atp.flink.table.{name}'"
        )
    sample = "atp_stratum, atp_n, atp_delivered"
    result = tables.execute_sql(
        f"""SELECT window_start, AtpAvg(temperature, {sample}), AtpSum(temperature, {sample}),
                   AtpCount({sample})
            FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(atp_timestamp), INTERVAL '1' SECOND))
            GROUP BY window_start, window_end"""
    )
    # The fourth window ends the third one.
    rows = take(result, 3, Sender(peer, RECORDS, 4, msr=1.0))
    assert [row[0].second for row in rows] == [20, 21, 22]
    for _, mean, total, count in rows:
        for estimate, exact in ((mean, 4.5), (total, 4.5 * RECORDS), (count, RECORDS)):
            assert all(math.isclose(value, exact) for value in estimate), estimate


def test_an_estimate_of_a_sample_has_an_interval() -> None:
    tables, peer = new_tables(), address()
    create(tables, "readings", COLUMNS, listen=peer)
    tables.execute_sql(
        "CREATE TEMPORARY FUNCTION AtpAvg AS 'org.netapprox.atp.flink.table.AtpAvg'"
    )
    result = tables.execute_sql(
        """SELECT AtpAvg(temperature, atp_stratum, atp_n, atp_delivered), AVG(temperature),
                  COUNT(*), MAX(atp_delivered), MAX(atp_n)
           FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(atp_timestamp), INTERVAL '1' SECOND))
           GROUP BY window_start, window_end"""
    )
    # The fourth window ends the third one.
    rows = take(result, 3, Sender(peer, RECORDS, 4, msr=0.5))
    for (estimate, low, high), mean, count, delivered, n in rows:
        assert count == delivered
        assert math.ceil(0.5 * RECORDS) <= delivered <= n == RECORDS
        # The sample's own mean is the estimate. It is exact only if all records arrived.
        assert math.isclose(estimate, mean)
        assert low < estimate < high if delivered < n else low == estimate == high


def test_a_table_is_written_and_read() -> None:
    tables, peer, number = new_tables(), address(), 3_000
    create(tables, "readings", COLUMNS, listen=peer)
    columns = "room INT, temperature DOUBLE, t TIMESTAMP_LTZ(3)"
    create(tables, "sent", columns, peers=peer, window="1 s", msr=1, topic="written")
    tables.execute_sql(
        f"""CREATE TABLE made (id BIGINT, t AS TO_TIMESTAMP_LTZ(id, 3), WATERMARK FOR t AS t)
            WITH ('connector' = 'datagen', 'number-of-rows' = '{number}',
                  'rows-per-second' = '100000', 'fields.id.kind' = 'sequence',
                  'fields.id.start' = '0', 'fields.id.end' = '{number - 1}')"""
    )
    read = tables.execute_sql(
        "SELECT room, temperature, atp_n, atp_topic, atp_window.window_number FROM readings"
    )
    written = tables.execute_sql(
        "INSERT INTO sent SELECT CAST(id AS INT), CAST(id AS DOUBLE), t FROM made"
    )
    rows = take(read, number)
    assert sorted(row[0] for row in rows) == list(range(number))
    assert all(row[1] == row[0] and row[2] == 1_000 for row in rows)
    assert {row[3] for row in rows} == {"written"}
    assert Counter(row[4] for row in rows) == dict.fromkeys(range(3), 1_000)
    written.wait(60_000)


def test_a_function_of_python_takes_a_column() -> None:
    tables, peer = new_tables(), address()
    create(tables, "readings", COLUMNS, listen=peer)
    tables.create_temporary_function("fahrenheit", fahrenheit)
    result = tables.execute_sql("SELECT temperature, fahrenheit(temperature) FROM readings")
    rows = take(result, RECORDS, Sender(peer, RECORDS, 1))
    assert Counter(row[0] for row in rows) == dict.fromkeys(map(float, range(10)), RECORDS // 10)
    assert all(math.isclose(row[1], row[0] * 1.8 + 32) for row in rows)


def test_a_table_becomes_a_stream() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    tables, peer = prepared(StreamTableEnvironment.create(env)), address()
    create(tables, "readings", COLUMNS, listen=peer)
    readings = tables.sql_query("SELECT room, temperature, atp_n FROM readings")
    stream = tables.to_data_stream(readings)
    doubled = stream.map(lambda row: row[1] * 2, output_type=Types.DOUBLE())
    sender = Sender(peer, RECORDS, 1)
    with doubled.execute_and_collect() as values:
        taken = [next(values) for _ in range(RECORDS)]
        sender.check()
    assert Counter(taken) == {2.0 * value: RECORDS // 10 for value in range(10)}
