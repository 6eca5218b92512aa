"""Folders of JPEGs: what a batch holds, the same for any number of processes, and what happens to broken pictures."""

import itertools
import os
import re
import signal

import numpy
import pytest
from PIL import Image

from tbd import data
from tbd.data import pictures
from tbd.data.source import BadData
from tests.data.ranks import assert_together

CLASSES = ["n01440764", "n01443537", "n02085620"]


def save(path, width, height, colour=None, mode="RGB"):
    """A JPEG: of one colour, or with red growing to the right and green downwards."""
    if colour is None:
        across, down = numpy.meshgrid(numpy.arange(width) + 0.5, numpy.arange(height) + 0.5)
        array = numpy.stack([across / width * 255, down / height * 255, numpy.full_like(across, 128)], 2)
        picture = Image.fromarray(numpy.uint8(array.round()))
    else:
        picture = Image.new("RGB", (width, height), colour)
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.convert(mode).save(str(path), "JPEG", quality=95, subsampling=0)
    return path


@pytest.fixture
def folder(tmp_path):
    """Ten pictures in three classes, each of a grey of its own: 20 times its number."""
    for number in range(10):
        ending = ["JPEG", "jpg", "jpeg", "JPG"][number % 4]
        path = tmp_path / "train" / CLASSES[number % 3] / ("%d.%s" % (number, ending))
        save(path, 40 + 3 * number, 50 - 2 * number, (20 * number,) * 3)
    return tmp_path


@pytest.fixture
def open_pictures(request_of):
    opened = []

    def open_pictures(specification, root, split="train", workers=1, max_broken_share=0.1, **options):
        request = request_of(
            "imagenet", root=str(root), split=split, workers=workers, max_broken_share=max_broken_share, **options
        )
        opened.append(data.open_source(specification, request))
        return opened[-1]

    yield open_pictures
    for source in opened:
        source.close()


def numbers(batch):
    """The pictures of a batch of `folder`, from their greys."""
    grey = (batch.arrays["images"] * pictures.DEVIATION + pictures.MEAN).mean(axis=(1, 2, 3)) * 255 / 20
    assert abs(grey - grey.round()).max() < 0.2
    return [int(n) for n in grey.round()]


def take(source, count):
    return list(itertools.islice(source.batches(), count))


def equal(some, others):
    return all((a.arrays[name] == b.arrays[name]).all() for a, b in zip(some, others) for name in a.arrays)


def test_a_batch_holds_normalised_pictures_with_their_classes(resnet50, folder, open_pictures):
    for batch in take(open_pictures(resnet50, folder, batch_size=5), 4):
        images, labels = batch.arrays["images"], batch.arrays["labels"]
        assert (images.shape, images.dtype) == ((5, 32, 32, 3), numpy.float32)
        assert (labels.shape, labels.dtype) == ((5,), numpy.int32)
        assert labels.tolist() == [number % 3 for number in numbers(batch)]
        assert batch.items == {"images": 5}
        assert batch.flops == resnet50.flops(batch.arrays)


def test_an_epoch_has_each_picture_once_and_the_next_one_another_order(resnet50, folder, open_pictures):
    order = [n for batch in take(open_pictures(resnet50, folder, batch_size=4), 5) for n in numbers(batch)]
    assert sorted(order[:10]) == sorted(order[10:]) == list(range(10))
    assert order[:10] != order[10:]


def test_a_batch_may_be_larger_than_the_folder(resnet50, folder, open_pictures):
    (batch,) = take(open_pictures(resnet50, folder, batch_size=30), 1)
    assert sorted(numbers(batch)) == sorted(3 * list(range(10)))


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_processes_changes_nothing(resnet50, folder, open_pictures, workers):
    folder.joinpath("train", CLASSES[0], "3.JPG").write_bytes(b"broken")
    one = take(open_pictures(resnet50, folder), 12)
    assert equal(one, take(open_pictures(resnet50, folder, workers=workers), 12))


def test_seed_and_rank_decide_order_crops_and_flips(resnet50, folder, open_pictures):
    save(folder / "train" / CLASSES[0] / "gradient.jpg", 60, 60)
    first = take(open_pictures(resnet50, folder, batch_size=11), 1)
    assert equal(first, take(open_pictures(resnet50, folder, batch_size=11), 1))
    assert not equal(first, take(open_pictures(resnet50, folder, batch_size=11, seed=2), 1))
    both = [take(open_pictures(resnet50, folder, batch_size=11, rank=rank, world_size=2), 1) for rank in (0, 1)]
    assert not equal(*both)


def test_the_shape_for_compiling_is_the_streams_first_batch(resnet50, folder, open_pictures):
    source = open_pictures(resnet50, folder)
    shapes = source.one_of_each_shape()
    assert len(shapes) == 1
    assert equal(shapes, take(source, 1))


def test_describes_itself_and_the_digest_tells_folders_apart(resnet50, folder, open_pictures):
    folder.joinpath("train", CLASSES[0], "readme.txt").write_text("no picture")
    described = open_pictures(resnet50, folder).describe()
    assert described["name"] == "imagenet"
    assert described["source"] == str(folder / "train")
    assert described["counts"] == {"pictures": 10, "classes": 3}
    assert described["skipped"] == {"not .jpg or .jpeg": 1}
    assert open_pictures(resnet50, folder).describe()["digest"] == described["digest"]
    os.rename(str(folder / "train" / CLASSES[0] / "0.JPEG"), str(folder / "train" / CLASSES[1] / "0.JPEG"))
    assert open_pictures(resnet50, folder).describe()["digest"] != described["digest"]


def truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def not_a_jpeg(path):
    path.write_bytes(b"<html>404 not found</html>" * 20)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [truncated, not_a_jpeg, empty])
def test_a_broken_picture_is_skipped_named_and_replaced_by_the_same_rows_next(resnet50, folder, open_pictures, spoil):
    whole = [n for batch in take(open_pictures(resnet50, folder, batch_size=5), 3) for n in numbers(batch)]
    path = folder / "train" / CLASSES[1] / "7.JPG"
    spoil(path)
    source = open_pictures(resnet50, folder, batch_size=5)
    batches = take(source, 2)
    expected = list(whole[:10])
    expected[whole.index(7)] = whole[whole.index(7) + 5]
    assert numbers(batches[0]) + numbers(batches[1]) == expected
    assert [batch.arrays["images"].shape[0] for batch in batches] == [5, 5]
    (why,) = source.describe()["skipped"]
    assert why.startswith(f"{path} is broken (")
    assert source.describe()["skipped"] == {why: 1}


@pytest.mark.parametrize("spoil", [truncated, not_a_jpeg, empty])
def test_more_broken_pictures_than_allowed_end_the_stream_with_the_files_name(resnet50, folder, open_pictures, spoil):
    paths = [folder / "train" / CLASSES[1] / "7.JPG", folder / "train" / CLASSES[2] / "2.jpeg"]
    for path in paths:
        spoil(path)
    batches = open_pictures(resnet50, folder, workers=2).batches()
    message = "(7.JPG|2.jpeg) is broken .* that makes 2 of 10 pictures, but data.max_broken_share=0.1 allows 1"
    for _ in range(2):  # and it goes on saying so
        with pytest.raises(BadData, match=message):
            for _ in range(10):
                next(batches)


def test_nothing_but_broken_pictures_is_an_error_however_many_are_allowed(resnet50, folder, open_pictures):
    for path in folder.glob("train/*/*"):
        empty(path)
    source = open_pictures(resnet50, folder, max_broken_share=1.0, batch_size=2)
    with pytest.raises(BadData, match="train/n0.* and 9 around it are broken"):
        source.one_of_each_shape()
    with pytest.raises(BadData, match="train/n0.* and 9 around it are broken"):
        next(source.batches())


def test_a_picture_that_goes_away_is_named(resnet50, folder, open_pictures):
    source = open_pictures(resnet50, folder, max_broken_share=0.0)
    folder.joinpath("train", CLASSES[0], "9.jpg").unlink()
    with pytest.raises(BadData, match="9.jpg is broken .FileNotFoundError"):
        for _ in take(source, 4):
            pass


def test_a_reading_process_that_is_killed_ends_the_stream(resnet50, folder, open_pictures):
    source = open_pictures(resnet50, folder, workers=2)
    batches = source.batches()
    next(batches)
    os.kill(source._processes._processes[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"a process that reads data died \(signal 9\)"):
        for _ in range(20):
            next(batches)


@pytest.mark.parametrize("broken", [None, 7])
def test_ranks_together_see_the_batches_of_one_process(resnet50, folder, open_pictures, broken):
    if broken is not None:
        empty(folder / "train" / CLASSES[broken % 3] / ("%d.JPG" % broken))
    one = take(open_pictures(resnet50, folder, batch_size=6), 4)
    ranks = [take(open_pictures(resnet50, folder, batch_size=3, rank=rank, world_size=2), 4) for rank in (0, 1)]
    assert_together(one, ranks)


def test_closing_ends_the_processes(resnet50, folder, open_pictures):
    source = open_pictures(resnet50, folder, workers=2)
    next(source.batches())
    processes = source._processes._processes
    source.close()
    assert [process.is_alive() for process in processes] == [False, False]
    source.close()


@pytest.mark.parametrize(
    "make, split, message",
    [
        (lambda root: None, "val", "val is missing: data.root=.* holds train; set data.split"),
        (lambda root: root.joinpath("val").mkdir(), "val", "val holds no folder: each class must be a folder"),
        (lambda root: save(root / "val" / "1.JPEG", 40, 40), "val", "val holds no folder: each class must be a folder"),
        (
            lambda root: root.joinpath("train", "n9").mkdir(),
            "train",
            "n9 holds no .jpg or .jpeg file: each class needs",
        ),
    ],
)
def test_a_folder_that_is_not_in_imagenets_form_is_named(resnet50, folder, open_pictures, make, split, message):
    make(folder)
    with pytest.raises(BadData, match=message):
        open_pictures(resnet50, folder, split=split)


def test_a_missing_root_is_named(resnet50, folder, open_pictures):
    with pytest.raises(BadData, match="data.root=.*nowhere is no folder"):
        open_pictures(resnet50, folder / "nowhere")


def test_more_classes_than_the_models_are_refused_with_the_way_out(resnet50, folder, open_pictures):
    for number in range(8):
        save(folder / "train" / ("n%d" % number) / "1.JPEG", 40, 40)
    with pytest.raises(BadData, match=re.escape("train has 11 classes but the model has 10: set model.classes=11")):
        open_pictures(resnet50, folder)


@pytest.mark.parametrize("width, height", [(500, 375), (64, 64), (33, 700), (1, 1), (3, 2000)])
def test_a_crop_is_within_the_picture_and_its_bounds(width, height):
    random = numpy.random.RandomState(0)
    for _ in range(200):
        left, top, crop_width, crop_height = pictures.crop(width, height, random)
        assert 0 <= left <= left + crop_width <= width
        assert 0 <= top <= top + crop_height <= height
        assert crop_width >= 1 and crop_height >= 1
        if (width, height) == (500, 375):
            assert 0.079 < crop_width * crop_height / (500.0 * 375.0) <= 1
            assert 0.74 < crop_width / float(crop_height) < 1.35


@pytest.mark.parametrize("width, height", [(40, 30), (300, 200), (1600, 1200)])
def test_what_is_read_is_the_crop_scaled_and_by_chance_flipped(tmp_path, width, height):
    path, flips = str(save(tmp_path / "gradient.jpg", width, height)), set()
    for seed in range(20):
        image = pictures.read(path, 32, numpy.random.RandomState(seed)) * pictures.DEVIATION + pictures.MEAN
        random = numpy.random.RandomState(seed)
        left, top, crop_width, crop_height = pictures.crop(width, height, random)
        flipped = random.randint(2)
        flips.add(flipped)
        places = (numpy.arange(32) + 0.5) / 32
        red = (left + places * crop_width) / width
        green = (top + places * crop_height) / height
        inner = slice(2, -2)  # at the crop's edges the filter sees no further pixels
        assert abs(image[inner, inner, 0] - (red[::-1] if flipped else red)[inner]).max() < 0.03
        assert abs(image[inner, inner, 1] - green[inner, None]).max() < 0.03
        assert abs(image[..., 2] - 128 / 255.0).max() < 0.03
    assert flips == {0, 1}


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_grey_and_print_pictures_become_rgb(tmp_path, mode):
    path = save(tmp_path / "one.jpg", 40, 40, (100, 100, 100), mode)
    image = pictures.read(str(path), 8, numpy.random.RandomState(0)) * pictures.DEVIATION + pictures.MEAN
    assert image.shape == (8, 8, 3)
    assert abs(image - 100 / 255.0).max() < 0.02
