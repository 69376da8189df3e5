"""Small charts as inline SVG; the page's style sheet sets their colours by class."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

ROW = 24  # height of a bar with its space
LABEL = 150  # width of the labels to the left of the bars
NUMBER = 56  # width of the figures to their right
PLOT = 420  # width of the bars at 100 percent


class Bar(NamedTuple):
    """One row of a bar chart, in percent."""

    label: str
    value: float
    interval: tuple[float, float] | None = None


def tag(name: str, *content: str, **attributes: object) -> str:
    """An element; ``class_`` is written ``class`` and ``text_anchor`` is written ``text-anchor``."""
    pairs = (
        f'{key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"' for key, value in attributes.items()
    )
    return f"<{' '.join([name, *pairs])}>{''.join(content)}</{name}>"


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Horizontal bars from 0 to 100 percent with their intervals as whiskers and the figure beside them."""
    height = ROW * len(bars) + 24
    drawing = [tag("title", escape(title))]
    for percent in (0, 25, 50, 75, 100):
        x = LABEL + PLOT * percent / 100
        drawing.append(tag("line", class_="grid", x1=x, x2=x, y1=0, y2=ROW * len(bars)))
        drawing.append(tag("text", str(percent), class_="axis", x=x, y=height - 8, text_anchor="middle"))
    for index, (label, value, interval) in enumerate(bars):
        y = ROW * index
        middle = y + ROW / 2
        tip = f"{label}: {value:.1f} %"
        if interval:
            tip += f", {interval[0]:.1f} to {interval[1]:.1f}"
        row = [
            tag("title", escape(tip)),
            tag("text", escape(label), class_="label", x=LABEL - 8, y=middle + 4, text_anchor="end"),
            tag("rect", class_="bar", x=LABEL, y=y + 4, width=PLOT * value / 100, height=ROW - 8, rx=2),
            tag(
                "text",
                f"{value:.1f}",
                class_="number",
                x=LABEL + PLOT + NUMBER,
                y=middle + 4,
                text_anchor="end",
            ),
        ]
        if interval:
            low, high = (LABEL + PLOT * end / 100 for end in interval)
            row.append(tag("line", class_="whisker", x1=low, x2=high, y1=middle, y2=middle))
            row += [
                tag("line", class_="whisker", x1=x, x2=x, y1=middle - 3, y2=middle + 3) for x in (low, high)
            ]
        drawing.append(tag("g", *row))
    return _picture(drawing, LABEL + PLOT + NUMBER + 4, height)


def line_chart(
    xs: Sequence[float], ys: Sequence[float], marks: Sequence[tuple[float, float]], title: str, x_title: str
) -> str:
    """A curve of percentages over ``xs`` from 0 on, with some points of it marked and labelled."""
    left, right, top, bottom, width, height = 36.0, 12.0, 10.0, 40.0, 640.0, 300.0
    across, down = width - left - right, height - top - bottom

    def place(x: float, y: float) -> tuple[float, float]:
        return left + across * x / xs[-1], top + down * (1 - y / 100)

    drawing = [tag("title", escape(title))]
    for percent in (0, 25, 50, 75, 100):
        y = place(0, percent)[1]
        drawing.append(tag("line", class_="grid", x1=left, x2=width - right, y1=y, y2=y))
        drawing.append(tag("text", str(percent), class_="axis", x=left - 8, y=y + 4, text_anchor="end"))
    for step in range(0, 7):
        x = xs[-1] * step / 6
        at = place(x, 0)
        drawing.append(tag("text", f"{x:.2g}", class_="axis", x=at[0], y=at[1] + 18, text_anchor="middle"))
    middle = left + across / 2
    drawing.append(tag("text", escape(x_title), class_="axis", x=middle, y=height - 4, text_anchor="middle"))
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, xs, ys))
    drawing.append(tag("polyline", class_="curve", points=path))
    for x, y in marks:
        at = place(x, y)
        drawing.append(tag("circle", class_="mark", cx=at[0], cy=at[1], r=4.5))
        drawing.append(tag("text", f"{y:.1f}", class_="number", x=at[0] + 9, y=at[1] + 14))
    return _picture(drawing, width, height)


def _picture(drawing: Sequence[str], width: float, height: float) -> str:
    box = f"0 0 {_text(width)} {_text(height)}"
    return tag("svg", *drawing, class_="chart", viewBox=box, width=width, height=height, role="img")


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
