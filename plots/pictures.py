"""What the modules of the picture kinds share: their inputs, and what they hand back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from results import Campaigns, Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Inputs:
    """Everything that pictures are made of."""

    campaigns: Campaigns  # cells of all ledgers
    definitions: dict[str, Json]  # table definitions by name
    published: dict[str, Json]  # the articles' figures by table name
    claims: dict[str, Json] = field(default_factory=dict)  # what each article's speed-up rests on, by table
    quality: Json | None = None  # a report of `clusterbench quality`
    model: Json | None = None  # what scripts/scaling_model.py predicts


@dataclass(frozen=True)
class Picture:
    """One picture: its data, plain values only, and how they are drawn."""

    name: str  # stem of the files
    title: str
    data: dict[str, Any]
    draw: Callable[[dict[str, Any]], Figure]
    notes: tuple[str, ...] = ()  # what is left out, and why


class NothingToDraw(Exception):
    """The inputs hold no cell for a picture; the message says what is missing."""
