"""Archives of small pictures: what is read, in which order, in how much memory, and what is refused."""

import itertools
import pickle
import tracemalloc
import zipfile

import numpy
import pytest
from PIL import Image

from tbd import data, models
from tbd.data import imagenet64
from tbd.data.source import BadData
from tests.data.ranks import assert_together
from tests.data.vocs import PHOTOS

SIZE = 16  # of the small model


def rows_of(pictures):
    """Pictures (n, size, size, 3) as the archives hold them: channel by channel."""
    return numpy.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).reshape(len(pictures), -1)


def photographs(size):
    """Real photographs scaled down and cut into pictures, (n, size, size, 3)."""
    found = []
    for path in sorted(PHOTOS.values()):
        with Image.open(path) as photo:
            across, down = photo.width // 128, photo.height // 128
            array = numpy.asarray(photo.convert("RGB").resize((size * across, size * down), Image.BILINEAR))
        tiles = array.reshape(down, size, across, size, 3).swapaxes(1, 2)
        found.append(tiles.reshape(-1, size, size, 3))
    return numpy.concatenate(found)


def numbered(first, count, size=SIZE):
    """Pictures of one colour each, which tells their number."""
    numbers = numpy.arange(first, first + count)
    colours = numpy.stack([numbers // 256, numbers % 256, 7 + 0 * numbers], 1).astype(numpy.uint8)
    return numpy.broadcast_to(colours[:, None, None], (count, size, size, 3))


def number_of(picture):
    return int(picture[0, 0, 0]) * 256 + int(picture[0, 0, 1])


def save(path, pictures, compressed=True):
    labels = numpy.arange(len(pictures)) % 1000 + 1
    write = numpy.savez_compressed if compressed else numpy.savez
    write(str(path), data=rows_of(pictures), labels=labels, mean=numpy.zeros(3 * SIZE * SIZE))
    return path


@pytest.fixture
def folder(tmp_path):
    """Three archives of 30, 30 and 40 numbered pictures, the tenth of which comes after the second."""
    save(tmp_path / "train_data_batch_1.npz", numbered(0, 30))
    save(tmp_path / "train_data_batch_2.npz", numbered(30, 30), compressed=False)
    save(tmp_path / "train_data_batch_10.npz", numbered(60, 40))
    return tmp_path


@pytest.fixture
def open_pictures(request_of):
    opened = []

    def open_pictures(root, split="train", model=None, **options):
        specification = models.create("wgan", dict(model or {}, size="small"))
        request = request_of("imagenet64", root=str(root), split=split, **options)
        opened.append(data.open_source(specification, request))
        return opened[-1]

    yield open_pictures
    for source in opened:
        source.close()


def take(source, count):
    return list(itertools.islice(source.batches(), count))


def numbers(batches):
    """The pictures of batches in the stream's order, by number."""
    return [number_of(p) for b in batches for turn in b.arrays["images"].swapaxes(0, 1) for p in turn]


def test_pictures_come_as_they_are_stored(tmp_path, open_pictures):
    pictures = photographs(64)
    assert len(pictures) >= 40
    save(tmp_path / "train_data_batch_1.npz", pictures)
    source = open_pictures(tmp_path, model={"image_size": 64}, batch_size=4)
    seen = {p.tobytes() for batch in take(source, 2) for row in batch.arrays["images"] for p in row}
    assert len(seen) == 40 and seen <= {p.tobytes() for p in pictures}


def test_an_epoch_has_each_picture_once_and_the_next_has_another_order(folder, open_pictures):
    found = numbers(take(open_pictures(folder, batch_size=4), 10))
    first, second = found[:100], found[100:]
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second and first != sorted(first)


def test_a_window_smaller_than_an_archive_shuffles_too(folder, open_pictures, monkeypatch):
    monkeypatch.setattr(imagenet64, "WINDOW", 16)
    monkeypatch.setattr(imagenet64, "PIECE", 8)
    found = numbers(take(open_pictures(folder, batch_size=4), 10))
    first, second = found[:100], found[100:]
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert sum(b - a == 1 for a, b in zip(first, first[1:])) < 20


def test_batches_depend_on_the_seed_alone(folder, open_pictures):
    one, same, other = (numbers(take(open_pictures(folder, batch_size=2, seed=s), 3)) for s in (1, 1, 2))
    assert one == same != other


def test_a_second_call_begins_the_stream_anew_with_the_batch_of_one_of_each_shape(folder, open_pictures):
    source = open_pictures(folder, batch_size=2)
    (shape,) = source.one_of_each_shape()
    first, again = take(source, 3), take(source, 3)
    for name, array in shape.arrays.items():
        assert (first[0].arrays[name] == array).all() and (again[0].arrays[name] == array).all()
    assert shape.items == {"images": 10}


def test_ranks_share_the_batches_of_one_process(folder, open_pictures):
    ranks = [take(open_pictures(folder, batch_size=2, rank=r, world_size=3), 8) for r in range(3)]
    assert_together(take(open_pictures(folder, batch_size=6), 8), ranks)


def test_the_split_is_told_by_the_files_names(folder, open_pictures):
    save(folder / "val_data.npz", numbered(500, 5))
    assert sorted(numbers(take(open_pictures(folder, split="val", batch_size=1), 1))) == list(range(500, 505))


def test_what_the_data_are_is_described(folder, open_pictures):
    one = open_pictures(folder).describe()
    assert one["counts"] == {"pictures": 100, "archives": 3}
    assert one["source"] == "%s, train" % folder
    assert one == open_pictures(folder, seed=2).describe()
    save(folder / "train_data_batch_2.npz", numbered(31, 30))
    assert open_pictures(folder).describe()["digest"] != one["digest"]


def test_memory_is_bounded_by_the_window(tmp_path, open_pictures, monkeypatch):
    monkeypatch.setattr(imagenet64, "WINDOW", 64)
    monkeypatch.setattr(imagenet64, "PIECE", 16)
    random = numpy.random.RandomState(0)
    pictures = random.randint(0, 256, (4000, SIZE, SIZE, 3)).astype(numpy.uint8)
    save(tmp_path / "train_data_batch_1.npz", pictures)
    source = open_pictures(tmp_path, batch_size=2)
    tracemalloc.start()
    assert sum(len(part) for part in source._epoch(random)) == 4000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < pictures.nbytes / 4


def refused(open_pictures, root, *words, **options):
    with pytest.raises(BadData) as error:
        take(open_pictures(root, **options), 30)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_an_archive_cut_short_is_refused_by_name(folder, open_pictures, share):
    path = folder / "train_data_batch_2.npz"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(open_pictures, folder, str(path), "broken or no .npz archive", "fetch it again")


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_within_is_found_when_it_is_read(tmp_path, open_pictures, compressed):
    random = numpy.random.RandomState(0)
    pictures = random.randint(0, 256, (100, SIZE, SIZE, 3)).astype(numpy.uint8)
    path = save(tmp_path / "train_data_batch_1.npz", pictures, compressed)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    refused(open_pictures, tmp_path, str(path), "broken")


def array_of(path, array):
    numpy.savez(str(path), data=array, labels=numpy.ones(len(array)))


@pytest.mark.parametrize(
    "array, words",
    [
        (numpy.zeros((3, 768), numpy.float32), "its data are float32 (3, 768), but the model takes uint8"),
        (numpy.zeros((3, 16, 16, 3), numpy.uint8), "its data are uint8 (3, 16, 16, 3), but the model takes uint8"),
        (numpy.zeros((3, 12288), numpy.uint8), "of 16x16 pixels: set model.image_size=64"),
        (numpy.zeros((3, 769), numpy.uint8), "of 16x16 pixels"),
        (numpy.zeros((0, 768), numpy.uint8), "holds no picture"),
        (numpy.asfortranarray(numpy.zeros((3, 768), numpy.uint8)), "its data lie column by column"),
        (numpy.array([[{"a": 1}]], object), "pickled Python objects, which are never read"),
    ],
)
def test_other_types_and_shapes_are_refused(tmp_path, open_pictures, array, words):
    path = tmp_path / "train_data_batch_1.npz"
    array_of(path, array)
    refused(open_pictures, tmp_path, str(path), words)


def test_an_archive_without_data_is_refused(tmp_path, open_pictures):
    numpy.savez(str(tmp_path / "train_data_batch_1.npz"), images=numpy.zeros((3, 768), numpy.uint8))
    refused(open_pictures, tmp_path, "train_data_batch_1.npz holds no array data, only images.npy")


class Trap:
    """What unpickling it does: the test fails."""

    def __reduce__(self):
        return pytest.fail, ("it was unpickled",)


def test_a_pickle_is_refused_whatever_it_is_called(tmp_path, open_pictures):
    (tmp_path / "train_data_batch_1.npz").write_bytes(pickle.dumps({"data": Trap()}))
    refused(open_pictures, tmp_path, "train_data_batch_1.npz is broken or no .npz archive")
    with zipfile.ZipFile(str(tmp_path / "train_data_batch_1.npz"), "w") as archive:
        archive.writestr("data.npy", pickle.dumps(Trap()))
    refused(open_pictures, tmp_path, "train_data_batch_1.npz is broken or no .npz archive")


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path, open_pictures):
    array_of(tmp_path / "short.npz", numpy.zeros((3, 768), numpy.uint8))
    with zipfile.ZipFile(str(tmp_path / "short.npz")) as archive:
        content = archive.read("data.npy")
    for shape in (b"(9, 768)", b"(2, 768)"):
        with zipfile.ZipFile(str(tmp_path / "train_data_batch_1.npz"), "w") as archive:
            archive.writestr("data.npy", content.replace(b"(3, 768)", shape))
        refused(open_pictures, tmp_path, "train_data_batch_1.npz", "its data")


def test_missing_folders_and_splits_are_named(folder, open_pictures):
    refused(open_pictures, folder / "nowhere", "nowhere is no folder", "train_data_batch_1.npz")
    refused(open_pictures, folder, "holds no val_data.npz", split="val")
    refused(open_pictures, folder, "data.split=test is not one of train, val", split="test")
