"""A page to look over all photos: thumbnails with numbered dots, least sure first. One file, no scripts."""

from __future__ import annotations

from html import escape
from pathlib import Path

from PIL import Image, ImageDraw

from ..evaluate.gallery import data_address, draw_dot
from ..evaluate.render import page, tag
from ..grid import resize_points
from ..images import read_image
from ..viz.colours import colours
from .annotations import AnnotatedImage, Annotations

SIDE = 320  # pixels of a thumbnail's longer side
MOST = 1000  # thumbnails on a page: about 30 kB each
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
    names = []
    for category in annotations.categories:
        numbered = ", ".join(f"{n} {name}" for n, name in enumerate(category.keypoints, start=1))
        names += [tag("p", tag("b", escape(category.name)), escape(f": {numbered}"))] if numbered else []
    few = f", the {MOST:,} least sure" if len(order) > MOST else ""
    return page(
        "Annotated photos",
        STYLE,
        tag("h1", f"{len(order):,} photos{few}"),
        tag("p", "Least sure first. A dot's colour is its score, from dark (0) to bright (1)."),
        *names,
        tag("main", *(_figure(image, photos[image.file_name]) for image in order[:MOST])),
    )


def _figure(image: AnnotatedImage, path: Path) -> str:
    predicted = any(one.scores is not None for one in image.objects)
    sure = f"{image.confidence:.2f}" if predicted else "marked by hand"
    picture = f'<img loading="lazy" alt="{escape(image.file_name)}" src="{_thumbnail(image, path)}">'
    return tag("figure", picture, tag("figcaption", escape(f"{image.file_name}: {sure}")))


def _thumbnail(image: AnnotatedImage, path: Path) -> str:
    """The photo with its dots, as an address."""
    photo = read_image(path)
    size = photo.size
    photo.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(photo)
    for one in image.objects:
        for polygon in one.polygons:
            corners = [tuple(corner) for corner in resize_points(polygon, size, photo.size).tolist()]
            draw.polygon(corners, outline="white")
        tints = colours([1.0] * len(one.keypoints) if one.scores is None else one.scores).tolist()
        dots = resize_points(one.keypoints[:, :2], size, photo.size).tolist()
        for number, (location, tint) in enumerate(zip(dots, tints, strict=True), start=1):
            if one.shown[number - 1]:
                draw_dot(draw, location, tuple(tint), number)
    return data_address(photo)
