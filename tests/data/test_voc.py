"""Folders in Pascal VOC's form: what a batch holds, and what happens to pictures and annotations that are at fault."""

import itertools
import re

import numpy
import pytest
from PIL import Image, ImageDraw

from tbd import data, models
from tbd.data import pictures, voc
from tbd.data.source import BadData
from tests.data.ranks import assert_together
from tests.data.vocs import ANNOTATION, Folder, described


@pytest.fixture
def faster_rcnn():
    return models.create("faster_rcnn", {"size": "small", "classes": 20})


@pytest.fixture
def folder(tmp_path):
    """Twelve photographs: eight across, two upright, two that are nearly square."""
    folder = Folder(tmp_path / "VOC2007")
    for number in range(12):
        sizes = [(100, 75), (100, 75), (100, 75), (100, 75), (75, 100), (80, 81)]
        folder.add_photo("%06d" % number, ["flower", "hopper"][number % 2], *sizes[number % 6])
    return folder


@pytest.fixture
def open_voc(request_of):
    opened = []

    def open_voc(specification, folder, split="trainval", workers=1, max_broken_share=0.1, batch_size=1, **options):
        shares = {"workers": workers, "max_broken_share": max_broken_share}
        request = request_of(
            "voc", root=str(folder.root), split=split, batch_size=batch_size, **dict(shares, **options)
        )
        opened.append(data.open_source(specification, request))
        return opened[-1]

    yield open_voc
    for source in opened:
        source.close()


def take(source, count):
    return list(itertools.islice(source.batches(), count))


def equal(some, others):
    return all(numpy.array_equal(a.arrays[name], b.arrays[name]) for a, b in zip(some, others) for name in a.arrays)


def pixels(batch, row=0):
    """The real part of a picture, 0 to 1."""
    height, width = batch.arrays["sizes"][row]
    return batch.arrays["images"][row, :height, :width] * pictures.DEVIATION + pictures.MEAN


def test_a_box_lies_on_its_object_after_scaling_and_flips(faster_rcnn, tmp_path, open_voc):
    folder = Folder(tmp_path / "VOC2007")
    picture = Image.new("RGB", (100, 75), (0, 0, 0))
    ImageDraw.Draw(picture).rectangle((9, 19, 39, 59), fill=(255, 255, 255))  # Pillow names the last pixel, from 0
    folder.add("1", picture, described("cat", (10, 20, 40, 60)))
    lefts = set()
    for batch in take(open_voc(faster_rcnn, folder), 8):
        assert batch.arrays["images"].shape == (1, 64, 80, 3)
        assert batch.arrays["sizes"].tolist() == [[60, 80]]
        assert batch.arrays["scales"].tolist() == [pytest.approx(0.8)]
        assert batch.arrays["classes"].tolist() == [[1 + voc.CLASSES.index("cat"), 0, 0, 0]]
        x1, y1, x2, y2 = batch.arrays["boxes"][0, 0]
        lefts.add(round(float(x1), 1))
        assert (y1, y2) == pytest.approx((19 * 0.8, 60 * 0.8))
        down, across = numpy.mgrid[:60, :80] + 0.5
        inside = (across > x1) & (across < x2) & (down > y1) & (down < y2)
        edge = numpy.minimum(abs(across - x1), abs(across - x2)).clip(max=9) < 1.5
        edge |= numpy.minimum(abs(down - y1), abs(down - y2)) < 1.5
        white = pixels(batch).mean(2)
        assert white[inside & ~edge].min() > 0.9 and white[~inside & ~edge].max() < 0.1
    assert lefts == {7.2, 48.0}  # 9 x 0.8, and flipped 80 - 40 x 0.8
    assert batch.items == {"images": 1, "boxes": 1}
    assert batch.flops == faster_rcnn.flops(batch.arrays) < batch.work


def test_around_the_real_picture_are_zeros(faster_rcnn, folder, open_voc):
    for batch in take(open_voc(faster_rcnn, folder), 12):
        height, width = batch.arrays["sizes"][0]
        images = batch.arrays["images"][0]
        assert (images[height:] == 0).all() and (images[:, width:] == 0).all() and (images[:height, :width] != 0).any()


def test_an_epoch_has_each_picture_once_and_the_next_one_another_order(faster_rcnn, folder, open_voc):
    # each with a box of its own: the width of the object tells the pictures apart
    for number in range(12):
        size = Image.open(str(folder.picture("%06d" % number))).size
        box = described("dog", (1, 1, 20 + number, 30))
        folder.annotation("%06d" % number).write_text(ANNOTATION.format(name="", size=size, objects=box))
    widths = []
    for batch in take(open_voc(faster_rcnn, folder), 24):
        height, width = batch.arrays["sizes"][0]
        x1, _, x2, _ = batch.arrays["boxes"][0, 0]
        widths.append(round(float(x2 - x1) / float(batch.arrays["scales"][0])))
    assert sorted(widths[:12]) == sorted(widths[12:]) == list(range(20, 32))
    assert widths[:12] != widths[12:]


def test_a_batch_has_one_shape_and_there_are_few(faster_rcnn, folder, open_voc):
    source = open_voc(faster_rcnn, folder, batch_size=3)
    shapes = [batch.arrays["images"].shape for batch in source.one_of_each_shape()]
    assert shapes == [(3, 64, 64, 3), (3, 64, 80, 3), (3, 80, 64, 3)]
    assert {batch.arrays["images"].shape for batch in take(source, 20)} == set(shapes)


def test_all_of_vocs_pictures_have_nine_shapes_at_full_size():
    full = models.create("faster_rcnn", {"size": "full"})
    scaled = set()
    for width in range(142, 501):
        for height in [375, 500, *range(142, 501, 7)]:
            scale = min(600.0 / min(width, height), 1000.0 / max(width, height))
            scaled.add((int(round(height * scale)), int(round(width * scale))))
    shapes = full.shapes_of(tuple(zip(*scaled)), None)
    assert len(set(shapes)) == 9
    assert all(h <= height and w <= width for (h, w), (height, width) in zip(scaled, shapes))
    assert full.shape_of(600, 800) == (608, 816) and full.shape_of(901, 600) == (912, 608)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_processes_changes_nothing(faster_rcnn, folder, open_voc, workers):
    folder.picture("000003").write_bytes(b"broken")
    one = take(open_voc(faster_rcnn, folder), 15)
    assert equal(one, take(open_voc(faster_rcnn, folder, workers=workers), 15))
    assert not equal(one, take(open_voc(faster_rcnn, folder, seed=2), 15))


@pytest.mark.parametrize("broken", [False, True])
def test_ranks_together_see_the_batches_of_one_process(faster_rcnn, folder, open_voc, broken):
    if broken:
        folder.picture("000003").write_bytes(b"broken")
    one = take(open_voc(faster_rcnn, folder, batch_size=4), 6)
    assert_together(one, [take(open_voc(faster_rcnn, folder, batch_size=2, rank=r, world_size=2), 6) for r in (0, 1)])


def test_difficult_objects_and_pictures_without_others_are_left_out_and_counted(faster_rcnn, folder, open_voc):
    photo = Image.new("RGB", (100, 75), (9, 99, 9))
    folder.add("hard", photo, described("cow", (5, 5, 50, 50), difficult=1))
    folder.add("none", photo, "")
    folder.add("both", photo, described("cow", (5, 5, 50, 50), difficult=1) + described("cow", (5, 5, 60, 60)))
    found = open_voc(faster_rcnn, folder).describe()
    assert found["counts"] == {"pictures": 13, "objects": 13, "shapes": 3}
    assert found["skipped"] == {"objects marked difficult": 2, "pictures without an object": 2}


BOMB = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><annotation><filename>&d;</filename></annotation>'
OUTER = '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><annotation><filename>&b;</filename></annotation>'
FULL = ANNOTATION.format(name="a", size=(100, 75), objects=described("cat", (1, 1, 100, 75)))
FAULTS = [
    (b"", "not XML: no element found"),
    (FULL[:200].encode(), "not XML"),
    (FULL.replace("Unspecified", "caf\u00e9").encode("latin-1"), "can't decode byte 0xe9"),
    (BOMB.encode(), "it has a DOCTYPE, which no annotation of VOC's has"),
    (OUTER.encode(), "it has a DOCTYPE, which no annotation of VOC's has"),
    (OUTER.encode("utf-16"), "can't decode byte"),
    (FULL.encode() + b" " * voc.LONGEST, "larger than 1000000 bytes"),
    (FULL.replace(">cat<", ">zebra<").encode(), "class zebra is none of VOC's: aeroplane, bicycle"),
    (FULL.replace("<name>cat</name>", "").encode(), "class '' is none of VOC's"),
    (FULL.replace("<xmax>100<", "<xmax>102<").encode(), "a box (1, 1, 102, 75) reaches beyond the picture's 100 x 75"),
    (FULL.replace("<ymax>75<", "<ymax>0<").encode(), "a box (1, 1, 100, 0) has no area"),
    (FULL.replace("<ymax>75<", "<ymax>many<").encode(), "could not convert string to float"),
    (FULL.replace("<ymax>75<", "<ymax>nan<").encode(), "bndbox/ymax is nan"),
    (FULL.replace("<ymax>75</ymax>", "").encode(), "object has no bndbox/ymax"),
    (FULL.replace("<width>100</width>", "").encode(), "annotation has no size/width"),
    (FULL.replace("<width>100<", "<width>0<").encode(), "the picture is 0 x 75 pixels"),
]


@pytest.mark.parametrize("content, why", FAULTS)
def test_an_annotation_at_fault_is_skipped_and_named(faster_rcnn, folder, open_voc, content, why):
    path = folder.annotation("000003")
    path.write_bytes(content)
    source = open_voc(faster_rcnn, folder)
    (skipped,) = source.describe()["skipped"]
    assert skipped.startswith("%s is broken (" % path) and why in skipped
    assert source.describe()["counts"]["pictures"] == 11
    with pytest.raises(BadData, match=re.escape("000003.xml is broken (")):
        open_voc(faster_rcnn, folder, max_broken_share=0.0)


def test_a_box_from_0_on_is_cut_to_the_picture():
    content = FULL.replace("<xmin>1<", "<xmin>0<").replace("<xmax>100<", "<xmax>101<").encode()
    assert voc.annotation(content).boxes.tolist() == [[0, 0, 100, 75]]


@pytest.mark.parametrize("folder_of", ["annotation", "picture"])
def test_a_missing_file_is_skipped_and_named(faster_rcnn, folder, open_voc, folder_of):
    path = getattr(folder, folder_of)("000003")
    path.unlink()
    assert open_voc(faster_rcnn, folder).describe()["skipped"] == {"%s is broken (No such file or directory)" % path: 1}


def truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def of_another_size(path):
    Image.new("RGB", (90, 75)).save(str(path), "JPEG")


SPOILT = [(truncated, "truncated"), (of_another_size, "it is 90 x 75 pixels, its annotation says 100 x 75")]


@pytest.mark.parametrize("spoil, why", SPOILT)
def test_a_broken_picture_is_skipped_and_replaced(faster_rcnn, folder, open_voc, spoil, why):
    for number in range(12, 24):  # enough across that none is read when the source is opened
        folder.add_photo("%06d" % number, "flower", 100, 75)
    spoil(folder.picture("000003"))
    source = open_voc(faster_rcnn, folder)
    assert source.describe()["skipped"] == {}
    assert len(take(source, 24)) == 24
    (skipped,) = source.describe()["skipped"]
    assert skipped.startswith("%s is broken (" % folder.picture("000003")) and why in skipped


@pytest.mark.parametrize("spoil, why", SPOILT)
def test_a_shape_whose_only_picture_is_broken_falls_away(faster_rcnn, folder, open_voc, spoil, why):
    folder.add_photo("wide", "flower", 100, 60)
    assert len(open_voc(faster_rcnn, folder).one_of_each_shape()) == 4
    spoil(folder.picture("wide"))
    source = open_voc(faster_rcnn, folder)
    assert len(source.one_of_each_shape()) == 3
    (skipped,) = source.describe()["skipped"]
    assert skipped.startswith("%s is broken (" % folder.picture("wide")) and why.split(",")[0] in skipped


def test_more_at_fault_than_allowed_end_the_stream_with_the_files_name(faster_rcnn, folder, open_voc):
    folder.annotation("000003").write_bytes(b"")
    folder.annotation("000004").write_bytes(b"")
    message = "000004.xml is broken .* that makes 2 of 12 pictures, but data.max_broken_share=0.1 allows 1"
    with pytest.raises(BadData, match=message):
        open_voc(faster_rcnn, folder)


def test_no_picture_with_an_object_is_an_error(faster_rcnn, tmp_path, open_voc):
    folder = Folder(tmp_path / "VOC2007")
    folder.add("1", Image.new("RGB", (100, 75)), "")
    with pytest.raises(BadData, match="VOC2007, trainval holds no picture with an object that can be read"):
        open_voc(faster_rcnn, folder)


def test_a_missing_root_or_split_is_named(faster_rcnn, folder, tmp_path, open_voc):
    (folder.root / "ImageSets" / "Main" / "cat_train.txt").write_text("000001 -1\n")
    with pytest.raises(BadData, match=r"Main/test.txt can't be read \(No such file.*: data.split can be trainval$"):
        open_voc(faster_rcnn, folder, split="test")
    with pytest.raises(BadData, match="line 1 is no picture's name .000001 -1.: it must be a name a line"):
        open_voc(faster_rcnn, folder, split="cat_train")
    folder.root = tmp_path / "nowhere"
    with pytest.raises(BadData, match="data.root=.*nowhere is no folder: name the one that holds Annotations"):
        open_voc(faster_rcnn, folder)


@pytest.mark.parametrize(
    "content, message", [(b"caf\xe9\n", "trainval.txt is not UTF-8 .byte 0xe9."), (b"\n", "names no picture")]
)
def test_a_list_that_is_none_is_refused(faster_rcnn, folder, open_voc, content, message):
    folder.list.write_bytes(content)
    with pytest.raises(BadData, match=message):
        open_voc(faster_rcnn, folder)


def test_what_the_model_has_no_room_for_is_refused_with_the_way_out(folder, open_voc):
    with pytest.raises(BadData, match="VOC has 20 classes but the model has 3: set model.classes=20"):
        open_voc(models.create("faster_rcnn", {"size": "small"}), folder)
    folder.add("many", Image.new("RGB", (100, 75)), 5 * described("cow", (1, 1, 9, 9)))
    with pytest.raises(BadData, match="many.xml has 5 objects but the model has room for 4: set model.boxes=5"):
        open_voc(models.create("faster_rcnn", {"size": "small", "classes": 20}), folder)


def test_the_digest_tells_annotations_and_pictures_apart(faster_rcnn, folder, open_voc):
    digest = open_voc(faster_rcnn, folder).describe()["digest"]
    assert open_voc(faster_rcnn, folder).describe()["digest"] == digest
    path = folder.annotation("000003")
    path.write_text(path.read_text().replace("person", "sofa"))
    assert open_voc(faster_rcnn, folder).describe()["digest"] != digest
