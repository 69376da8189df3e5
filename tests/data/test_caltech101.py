"""Caltech-101: outlines and the masks in them."""

from __future__ import annotations

import pytest

from dhpf.data.caltech101 import Caltech101
from dhpf.data.mini import make_mini
from dhpf.errors import InputError

LIST = "test_pairs_caltech_with_category.csv"


@pytest.mark.parametrize("separator", [";", ","], ids=["official", "comma"])
def test_outlines_by_hand(tmp_path, separator):
    make_mini("caltech-101", tmp_path)
    row = "101_ObjectCategories/cup/image_0000.jpg,101_ObjectCategories/cup/image_0001.jpg,31,{0}"
    cells = '"0.5,4.5,4.5,0.5","0.5,0.5,2.5,2.5","1.5,3.5,3.5","1.5,1.5,3.5"'
    if separator == ";":
        cells = cells.replace('","', "/").replace(",", ";").replace("/", ",").strip('"')
    (tmp_path / LIST).write_text("a,b,c,d,e,f,g\n" + row.format(cells) + "\n")
    pair = Caltech101(tmp_path)[0]
    assert (pair.category, pair.id) == ("cup", "cup/image_0000-image_0001")
    assert pair.source.size == (120, 90)
    assert pair.source.points.shape == (0, 2)
    assert pair.source.polygon is not None and pair.source.polygon.tolist()[2] == [4.5, 2.5]
    assert pair.target.polygon is not None and len(pair.target.polygon) == 3
    assert pair.source.mask is not None and pair.source.mask.sum() == 4 * 2
    assert pair.source.mask[1:3, 1:5].all()


def test_bad_input_is_named(tmp_path):
    with pytest.raises(InputError, match=rf"no such pair list: .*{LIST}"):
        Caltech101(tmp_path)
    with pytest.raises(InputError, match="its only split is test"):
        Caltech101(tmp_path, "trn")
    (tmp_path / LIST).write_text('a,b,c,d,e,f,g\nx/y.jpg,x/z.jpg,1,"1,2","1,2","1,2,3","1,2,3"\n')
    with pytest.raises(InputError, match=rf"{LIST}, line 2: a polygon has 2 corners, but 3"):
        Caltech101(tmp_path)[0]
