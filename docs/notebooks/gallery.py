"""Draws the five pictures of the guide's page on data frames: ``python gallery.py FOLDER``.

Both ends of each job are in this process. Needs atp, numpy, pandas, pyarrow and matplotlib.
"""

import socket
import sys
import threading
from pathlib import Path

import atp
import matplotlib
import numpy as np
import pandas as pd
from atp.answers import Answering, Answers, Delivery

matplotlib.use("svg")
matplotlib.rcParams |= {"svg.hashsalt": "atp", "svg.fonttype": "none", "font.size": 9}
from matplotlib import pyplot as plt  # noqa: E402

ROWS = 200_000


def free_address() -> str:
    """A port of this host that no program has now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def flights(rows: int = ROWS) -> pd.DataFrame:
    """Delays in minutes, of carriers and airports that differ."""
    random = np.random.default_rng(7)
    carriers, origins = ["AA", "B6", "DL", "EV", "UA", "WN"], ["EWR", "JFK", "LGA"]
    carrier, origin = random.integers(6, size=rows), random.choice(3, rows, p=[0.6, 0.3, 0.1])
    return pd.DataFrame(
        {
            "carrier": np.array(carriers)[carrier],
            "origin": np.array(origins)[origin],
            "delay": random.gamma(2.0, 4.0 + carrier + 2 * origin).round(1),
        }
    )


def ask(data: pd.DataFrame, query: str, msr: float = 1.0, emax: float | None = None) -> Answers:
    """Sends a frame and receives its answers. A low rate leaves time for an early end."""
    address = free_address()
    sender = threading.Thread(
        target=atp.send_dataframe,
        args=(data, address),
        kwargs={"msr": msr, "rate_max_bytes_per_s": 4_000_000, "control_socket": None},
    )
    sender.start()
    answers = atp.receive(address, query=query, emax=emax, control_socket=None)
    sender.join()
    return answers


def by_key(data: pd.DataFrame) -> None:
    """The mean of each key, within the accepted error."""
    ask(data, "avg(delay) by carrier", emax=0.05).plot()


def several(data: pd.DataFrame) -> None:
    """Several functions of two keys, of the rows that meet a condition."""
    query = "SELECT avg(delay), stddev(delay), max(delay) WHERE delay > 5 GROUP BY origin, carrier"
    ask(data, query, msr=0.2).plot()


def errors(data: pd.DataFrame) -> None:
    """The accepted error decides how many messages are sent."""
    figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    accepted = (0.05, 0.025, 0.0125, 0.00625)
    for place, emax in enumerate(accepted):
        [(_, estimate)] = ask(data, "avg(delay)", emax=emax).rows
        error = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        ax.errorbar(place, estimate.value, error, fmt="o", capsize=4, color="tab:blue")
        ax.annotate(
            f"{estimate.messages} messages",
            (place, estimate.high),
            (0, 6),
            textcoords="offset points",
            ha="center",
        )
    ax.axhline(data["delay"].mean(), color="tab:gray", linestyle="--", label="all rows")
    ax.set_xticks(range(4), [f"{100 * emax:g} %" for emax in accepted])
    ax.set(xlabel="accepted error", ylabel="avg(delay), minutes", xlim=(-0.5, 3.5))
    ax.margins(y=0.2)
    ax.legend(loc="lower right")


def shrinking(data: pd.DataFrame) -> None:
    """The interval while messages arrive."""
    messages = np.array_split(data["delay"].to_numpy(), 2_000)
    answering = Answering("avg(delay)", ["delay"])
    answering.set_delivery(0, Delivery(order="shuffled"))
    answering.set_messages_sent(0, len(messages))
    points = []
    for number, message in enumerate(messages, 1):
        answering.push_message(0, message)
        estimate = answering.overall() if number >= 30 and number % 10 == 0 else None
        if estimate is not None:
            points.append((number, estimate.value, estimate.low, estimate.high))
    x, value, low, high = np.array(points).T
    figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    ax.fill_between(x, low, high, alpha=0.3, label="95 % interval")
    ax.plot(x, value, label="answer")
    ax.axhline(data["delay"].mean(), color="tab:gray", linestyle="--", label="all rows")
    ax.set(xlabel=f"messages that arrived, of {len(messages)}", ylabel="avg(delay), minutes")
    ax.legend()


def weighted(data: pd.DataFrame) -> None:
    """The rows that arrived, weighted, beside all rows."""
    address = free_address()
    sender = threading.Thread(
        target=atp.send_dataframe, args=(data, address), kwargs={"msr": 0.1, "control_socket": None}
    )
    sender.start()
    rows = atp.receive(address, as_="frame", control_socket=None).to_pandas()
    sender.join()
    figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    bins = np.arange(0, 60, 2)
    ax.hist(data["delay"], bins=bins, histtype="step", color="tab:gray", label="all rows")
    ax.hist(
        rows["delay"],
        bins=bins,
        weights=rows["atp_weight"],
        alpha=0.4,
        label=f"{len(rows)} of {len(data)} rows, weighted",
    )
    ax.set(xlabel="delay, minutes", ylabel="rows")
    ax.legend()


PICTURES = (by_key, several, errors, shrinking, weighted)


def main(folder: Path) -> None:
    data = flights()
    for number, picture in enumerate(PICTURES, 1):
        picture(data)
        plt.savefig(folder / f"frames-{number}.svg", metadata={"Date": None})
        plt.close("all")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
