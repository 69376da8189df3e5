"""A page to look over all photos: thumbnails with numbered dots, least sure first. One file, no scripts."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

from PIL import Image, ImageDraw

from ..grid import resize_points
from ..images import read_image
from ..viz.colours import colours
from .annotations import AnnotatedImage, Annotations

SIDE = 320  # pixels of a thumbnail's longer side
RADIUS = 4  # of a dot
MOST = 1000  # thumbnails on a page: about 20 kB each
STYLE = """
body { font: 15px system-ui, sans-serif; margin: 1.5rem; color: #222; background: #fafafa }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(260px, 1fr)); gap: 1rem }
figure { margin: 0 } img { max-width: 100%; display: block }
figcaption { font-size: 13px; overflow-wrap: anywhere }
"""


def contact_sheet(annotations: Annotations, photos: dict[str, Path]) -> str:
    """The page, in HTML.

    Parameters
    ----------
    photos
        Where the photo of each name is.
    """
    order = annotations.least_sure_first()
    shown = order[:MOST]
    names = "".join(
        f"<p><b>{html.escape(category.name)}</b>: "
        + ", ".join(f"{n} {html.escape(name)}" for n, name in enumerate(category.keypoints, start=1))
        + "</p>"
        for category in annotations.categories
        if category.keypoints
    )
    few = f", the {MOST:,} least sure" if len(order) > MOST else ""
    figures = "\n".join(_figure(image, photos[image.file_name]) for image in shown)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Annotated photos</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>{len(order):,} photos{few}</h1>\n"
        f"<p>Least sure first. A dot's colour is its score, from dark (0) to bright (1).</p>\n{names}\n"
        f"<main>\n{figures}\n</main></body></html>\n"
    )


def _figure(image: AnnotatedImage, path: Path) -> str:
    name = html.escape(image.file_name)
    sure = (
        f"{image.confidence:.2f}"
        if any(one.scores is not None for one in image.objects)
        else "marked by hand"
    )
    picture = f'<img loading="lazy" alt="{name}" src="{_thumbnail(image, path)}">'
    return f"<figure>{picture}<figcaption>{name}: {sure}</figcaption></figure>"


def _thumbnail(image: AnnotatedImage, path: Path) -> str:
    """The photo with its dots, as an address."""
    photo = read_image(path)
    size = photo.size
    photo.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    pen = ImageDraw.Draw(photo)
    for one in image.objects:
        for polygon in one.polygons:
            corners = [tuple(corner) for corner in resize_points(polygon, size, photo.size).tolist()]
            pen.polygon(corners, outline="white")
        scores = [1.0] * len(one.keypoints) if one.scores is None else one.scores.tolist()
        dots = resize_points(one.keypoints[:, :2], size, photo.size).tolist()
        tints = colours(scores).tolist()
        for number, (x, y) in enumerate(dots):
            if one.shown[number]:
                pen.ellipse((x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS), tuple(tints[number]), "white")
                place, text = (x + RADIUS, y - RADIUS), str(number + 1)
                pen.text(place, text, "white", anchor="lb", stroke_width=2, stroke_fill="black", font_size=12)
    content = io.BytesIO()
    photo.save(content, "JPEG", quality=80)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
