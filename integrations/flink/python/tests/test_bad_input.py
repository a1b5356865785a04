"""Bad options are refused before anything runs, in one sentence that people of Python see."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError

from flink_tables import COLUMNS, address, create, new_tables

UNKNOWN = "Unsupported options:\n\ncolour\n\nSupported options:\n\n"
READ = {
    "listen": ({}, "can't be read: give the option 'listen'"),
    "listen_nowhere": ({"listen": "nowhere"}, "nowhere"),
    "msr": ({"listen": "HERE", "msr": "1.5"}, "between 0 and 1"),
    "unknown": ({"listen": "HERE", "colour": "red"}, UNKNOWN),
}
WRITE = {
    "peers": ({"window": "1 s"}, "peers"),
    "msr": ({"peers": "HERE", "window": "1 s", "msr": "1.5"}, "between 0 and 1"),
    "unknown": ({"peers": "HERE", "window": "1 s", "colour": "red"}, UNKNOWN),
}


def messages(error: Py4JJavaError) -> list[str]:
    """The messages of an error of Java and its causes."""
    found, cause = [], error.java_exception
    while cause is not None:
        found.append(str(cause.getMessage()))
        cause = cause.getCause()
    return found


def check(statement: str, columns: str, options: dict[str, str], sentence: str) -> None:
    tables = new_tables()
    here = address()
    given = {key: here if value == "HERE" else value for key, value in options.items()}
    create(tables, "readings", columns, **given)
    with pytest.raises(Py4JJavaError) as refused:
        tables.execute_sql(statement)
    cause = messages(refused.value)[-1]
    assert sentence in cause
    # Python shows it without a look at the objects of Java.
    assert cause in str(refused.value)


@pytest.mark.parametrize("case", READ)
def test_a_table_that_is_read_refuses(case: str) -> None:
    check("SELECT room FROM readings", COLUMNS, *READ[case])


@pytest.mark.parametrize("case", WRITE)
def test_a_table_that_is_written_refuses(case: str) -> None:
    check("INSERT INTO readings VALUES (1)", "room INT", *WRITE[case])
