"""Make the pictures of ``docs/drawing.md`` with the default model: ``python docs/tools/pictures.py``."""

from __future__ import annotations

from pathlib import Path

import dhpf

IMAGES = Path(__file__).parents[1] / "images"
POINTS = [[88, 92], [161, 92], [123, 146]]  # eyes and nose of the cheetah
TRUTH = [[155, 200], [302, 186], [231, 266]]  # the same of the cub


def main() -> None:
    """Draw every style."""
    matcher = dhpf.load()
    match = matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    birds = matcher.match(dhpf.sample("kingfisher"), dhpf.sample("macaw"))
    pictures = {
        "lines": match.draw(),
        "points": match.draw(style="points"),
        "truth": match.draw(POINTS, "truth", truth=TRUTH),
        "warp": birds.draw(style="warp"),
        "flow": match.draw(style="flow"),
        "heat": match.draw(POINTS[:1], "heat"),
    }
    for style, picture in pictures.items():
        picture.save(IMAGES / f"{style}.jpg", quality=85)


if __name__ == "__main__":
    main()
