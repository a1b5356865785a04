"""Answers with confidence intervals, from the messages of a lossy job that arrived."""

from atp._answers import (
    Action,
    Answers,
    Delivery,
    End,
    Key,
    Lower,
    Number,
    Raise,
    Ranking,
    Report,
    Wait,
)
from atp._errors import AnswerError, QueryError
from atp._native import (  # type: ignore[attr-defined]  # typed in answers.pyi
    Answering,
    Estimate,
    Frame,
    GroupBy,
    Planner,
    Quantiles,
    Query,
    Sample,
    Table,
    Top,
)
from atp._tables import send_csv, send_dataframe

__all__ = [
    "Action",
    "AnswerError",
    "Answering",
    "Answers",
    "Delivery",
    "End",
    "Estimate",
    "Frame",
    "GroupBy",
    "Key",
    "Lower",
    "Number",
    "Planner",
    "Quantiles",
    "Query",
    "QueryError",
    "Raise",
    "Ranking",
    "Report",
    "Sample",
    "Table",
    "Top",
    "Wait",
    "send_csv",
    "send_dataframe",
]
