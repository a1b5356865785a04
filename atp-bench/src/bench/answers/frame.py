"""The processes of `bench answers --frame`: `python frame.py ROWS ROUNDS ATP_USER` prints a line of
JSON for each round and way to the answer or through the network, with the processor time of each
end.

The frame has a key of 20 values in a dictionary, and a float. All transfers go over loopback, each
end in a process of its own. A sender's time begins with the frame of pandas in its memory, of which
it makes Arrow's columns. A receiver's is that of the whole process for ATP, and begins after the
imports for Flight.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

QUERY = "avg(x) by key"
KEYS = 20
# 100 Gbit/s: no limit on this machine.
RATE_MAX_BYTES_PER_S = 12_500_000_000


def frame(rows: int) -> Any:
    import numpy as np
    import pandas as pd

    draws = np.random.default_rng(1)
    codes = draws.integers(0, KEYS, rows, dtype=np.int8)
    key = pd.Categorical.from_codes(codes, [f"C{key:02}" for key in range(KEYS)])
    return pd.DataFrame({"key": key, "x": draws.normal(10.0, 3.0, rows)})


def cpu_s(who: int = resource.RUSAGE_SELF) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def means(data: Any) -> Any:
    return data.groupby("key", observed=True)["x"].mean()


def pandas_groupby(rows: int) -> float:
    data = frame(rows)
    began = cpu_s()
    assert len(means(data)) == KEYS
    return cpu_s() - began


def send_atp(rows: int, peer: str, order: str) -> float:
    import atp

    data = frame(rows)
    began = cpu_s()
    atp.send_dataframe(
        data,
        peer,
        msr=1.0,
        ordered=order == "ordered",
        rate_max_bytes_per_s=RATE_MAX_BYTES_PER_S,
        control_socket=None,
    )
    return cpu_s() - began


def serve_flight(rows: int) -> None:
    """Prints its port, and its processor time after one transfer."""
    import pyarrow as pa
    import pyarrow.flight

    data = frame(rows)
    began = cpu_s()
    table = pa.Table.from_pandas(data)
    converted = cpu_s() - began

    class Server(pyarrow.flight.FlightServerBase):
        def do_get(self, context: Any, ticket: Any) -> Any:
            return pyarrow.flight.RecordBatchStream(table)

    server = Server("grpc://127.0.0.1:0")
    began = cpu_s()
    print(server.port, flush=True)
    sys.stdin.readline()
    print(converted + cpu_s() - began, flush=True)
    os._exit(0)


def get_flight(rows: int, port: str) -> float:
    import pyarrow.flight

    began = cpu_s()
    client = pyarrow.flight.connect(f"grpc://127.0.0.1:{port}")
    table = client.do_get(pyarrow.flight.Ticket(b"")).read_all()
    assert table.num_rows == rows
    return cpu_s() - began


def process(*args: object, stdin: int | None = None) -> subprocess.Popen[str]:
    words = [sys.executable, __file__, *map(str, args)]
    return subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, text=True)


def printed(child: subprocess.Popen[str]) -> float:
    output, _ = child.communicate()
    assert child.returncode == 0, f"{child.args} failed"
    return float(output)


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def atp_transfer(rows: int, order: str, receive: list[str]) -> tuple[str, tuple[float, float]]:
    """The output of `atp-user recv`, and the processor time of a sender in Python and of it."""
    peer = f"127.0.0.1:{free_port()}"
    none = {**os.environ, "ATP_SOCKET": "/nonexistent/atp.sock"}
    receiver = subprocess.Popen(
        [*receive, peer], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=none
    )
    assert receiver.stderr is not None and receiver.stdout is not None
    while "receiving" not in (line := receiver.stderr.readline()):
        assert line, "the receiver ended"
    sender = printed(process("send_atp", rows, peer, order))
    output, errors = receiver.stdout.read(), receiver.stderr.read()
    _, status, usage = os.wait4(receiver.pid, 0)
    receiver.returncode = os.waitstatus_to_exitcode(status)
    assert receiver.returncode == 0, f"the receiver failed: {output} {errors}"
    return output, (sender, usage.ru_utime + usage.ru_stime)


def atp_answer(rows: int, receive: list[str], expected: Any) -> tuple[float, float]:
    output, cpu = atp_transfer(rows, "shuffled", [*receive, "--query", QUERY, "--json"])
    found = {row["key"]: row["value"] for row in json.loads(output)["rows"]}
    assert found.keys() == set(expected.index), found
    assert all(abs(found[key] - mean) < 1e-9 for key, mean in expected.items()), found
    return cpu


def flight_transfer(rows: int) -> tuple[float, float]:
    server = process("serve_flight", rows, stdin=subprocess.PIPE)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    client = printed(process("get_flight", rows, port))
    return printed_after(server), client


def printed_after(server: subprocess.Popen[str]) -> float:
    output, _ = server.communicate("\n")
    return float(output)


def main(rows: int, rounds: int, atp_user: str) -> None:
    import pyarrow as pa

    data = frame(rows)
    frame_bytes, expected = pa.Table.from_pandas(data).nbytes, means(data)
    del data
    recv = [atp_user, "recv"]
    discard = [*recv, "--raw", "--out", "/dev/null"]
    ways: dict[str, Callable[[], tuple[float, ...]]] = {
        "pandas": lambda: (printed(process("pandas_groupby", rows)),),
        "flight": lambda: flight_transfer(rows),
        "atp_ordered": lambda: atp_transfer(rows, "ordered", discard)[1],
        "atp_shuffled": lambda: atp_transfer(rows, "shuffled", discard)[1],
        "atp_answer": lambda: atp_answer(rows, recv, expected),
    }
    for _ in range(rounds):
        for name, run in ways.items():
            print(json.dumps({"way": name, "cpu_s": run(), "bytes": frame_bytes}), flush=True)


if __name__ == "__main__":
    role, *rest = sys.argv[1:]
    match role:
        case "pandas_groupby":
            print(pandas_groupby(int(rest[0])))
        case "send_atp":
            print(send_atp(int(rest[0]), rest[1], rest[2]))
        case "serve_flight":
            serve_flight(int(rest[0]))
        case "get_flight":
            print(get_flight(int(rest[0]), rest[1]))
        case _:
            main(int(role), int(rest[0]), rest[1])
