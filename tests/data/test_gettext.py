"""Sentence pairs from gettext catalogues: what is found, what is cleaned away, and how the folder comes to be."""

import importlib.util
import itertools
import os
import struct

import pytest

from tbd import data
from tbd.data import gettext
from tbd.data.source import BadData


def catalogue(messages):
    """The bytes of a .mo file (GNU gettext manual, "The Format of GNU MO Files") of {id: translation}."""
    messages = dict(messages)
    messages[""] = "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=1; plural=0;\n"
    pairs = sorted((key.encode("utf-8"), value.encode("utf-8")) for key, value in messages.items())
    start = 7 * 4 + 16 * len(pairs)
    tables, strings = [[], []], b""
    for side in (0, 1):
        for pair in pairs:
            tables[side] += [len(pair[side]), start + len(strings)]
            strings += pair[side] + b"\0"
    header = struct.pack("<7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return header + struct.pack("<%dI" % (4 * len(pairs)), *(tables[0] + tables[1])) + strings


def write_catalogue(root, messages, name="program", language="vi"):
    folder = root.joinpath(language, "LC_MESSAGES")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.joinpath(name + ".mo")
    path.write_bytes(catalogue(messages))
    return str(path)


GREETINGS = {"Open the file": "Mở tập tin", "Close the window": "Đóng cửa sổ", "Save all changes": "Lưu mọi thay đổi"}


@pytest.fixture
def extracted(tmp_path):
    """A function: one catalogue's messages -> the pairs (English, translation) and {why: count skipped}."""

    def extracted(messages):
        path = write_catalogue(tmp_path, messages)
        folder, _, skipped = gettext.extract([path], "vi", str(tmp_path / "cache"))
        return read_pairs(folder), skipped

    return extracted


def read_pairs(folder):
    sides = []
    for name in ("train.en", "train.vi"):
        with open(os.path.join(folder, name), encoding="utf-8", newline="\n") as file:
            sides.append(file.read().split("\n")[:-1])
    assert len(sides[0]) == len(sides[1])
    return list(zip(*sides))


@pytest.fixture
def open_gettext(request_of, tmp_path):
    def open_gettext(specification, *catalogues, **options):
        options.setdefault("root", str(tmp_path / "cache"))
        request = request_of("gettext", language="vi", catalogues=list(catalogues), max_length=50, **options)
        return data.open_source(specification, request)

    return open_gettext


def test_messages_become_pairs_of_words_in_the_catalogues_order(extracted):
    pairs, skipped = extracted(GREETINGS)
    assert pairs == [
        ("Close the window", "Đóng cửa sổ"),
        ("Open the file", "Mở tập tin"),
        ("Save all changes", "Lưu mọi thay đổi"),
    ]
    assert skipped == {}


@pytest.mark.parametrize(
    "english, translation, pair",
    [
        ("verb\4Open it", "Mở nó", ("Open it", "Mở nó")),
        ("Save %d file\0Save %d files", "Lưu %d tập tin", ("Save %d file", "Lưu %d tập tin")),
        ("_Open the file", "_Mở tập tin", ("Open the file", "Mở tập tin")),
        ("E&xit the program", "&Thoát chương trình", ("Exit the program", "Thoát chương trình")),
        ("Save _as", "另存为(_A)", ("Save as", "另存为")),
        ("Set max_length to 5", "Đặt max_length là 5", ("Set max_length to 5", "Đặt max_length là 5")),
        ("Our R&D office", "Văn phòng R&D", ("Our R & D office", "Văn phòng R & D")),
        ('<a href="%(url)s">Log in</a> again', "<b>Đăng nhập</b> lại", ("Log in again", "Đăng nhập lại")),
        ("Tom &amp; Jerry run", "Tom &amp; Jerry chạy", ("Tom & Jerry run", "Tom & Jerry chạy")),
        ("git add <file>...", "git add <tập tin>…", ("git add < file > . . .", "git add < tập tin > …")),
        ("don't use --all, %s!", "đừng dùng --all, %s!", ("don't use --all , %s !", "đừng dùng --all , %s !")),
        (
            "Hello %(name)s, {count} of %5.2f%%",
            "Chào %(name)s",
            ("Hello %(name)s , {count} of %5.2f % %", "Chào %(name)s"),
        ),
        ("Two\n  lines here\t", "Hai\ndòng ở đây", ("Two lines here", "Hai dòng ở đây")),
        ("To\u0302i la\u0300 here", "Tôi là", ("Tôi là here", "Tôi là")),
    ],
)
def test_what_is_no_sentence_is_taken_out_of_a_pair(extracted, english, translation, pair):
    pairs, _ = extracted({english: translation})
    assert pairs == [pair]


def test_paragraphs_become_pairs_where_both_sides_have_equally_many(extracted):
    pairs, _ = extracted({"First one.\n\nSecond one.": "Một câu.\n\nHai câu.", "Third one.\n\nFourth one.": "Ba bốn."})
    assert pairs == [
        ("First one .", "Một câu ."),
        ("Second one .", "Hai câu ."),
        ("Third one . Fourth one .", "Ba bốn ."),
    ]


@pytest.mark.parametrize(
    "messages, why",
    [
        ({"Not yet translated": ""}, "not translated"),
        ({"GNU General Public License": "GNU General Public License"}, "equal to the original"),
        ({"Monday": "Thứ hai"}, "fewer than two words"),
        ({"%s: %s": "%s = %s"}, "fewer than two words"),
        ({"one " * 51: "một " * 51}, "longer than 50 words"),
        ({"two words": "từ " * 19}, "lengths differ 9 times"),
        ({"noun\4Open the file": "Tập tin mở"}, "repeated"),
    ],
)
def test_what_is_no_use_is_dropped_and_counted(extracted, messages, why):
    messages = dict({"Open the file": "Mở tập tin"}, **messages)
    pairs, skipped = extracted(messages)
    assert len(pairs) == 1
    assert skipped == {why: 1}


def test_catalogues_are_found_by_language_anywhere_below_the_roots(tmp_path):
    django, system = tmp_path / "django", tmp_path / "locale"
    expected = [
        write_catalogue(django / "conf" / "locale", GREETINGS),
        write_catalogue(django / "contrib" / "admin" / "locale", GREETINGS, "djangojs"),
        write_catalogue(system, GREETINGS),
    ]
    write_catalogue(system, GREETINGS, language="vi_VN")
    system.joinpath("vi", "LC_MESSAGES", "program.po").write_text("")
    assert gettext.find_catalogues([str(system), str(django)], "vi") == sorted(expected)
    assert gettext.find_catalogues([str(system), str(system), str(tmp_path / "nowhere")], "vi") == expected[2:]
    assert gettext.find_catalogues([str(tmp_path)], "xx") == []


def test_the_source_gives_batches_of_the_pairs_and_says_where_from(seq2seq, tmp_path, open_gettext):
    source = open_gettext(seq2seq, write_catalogue(tmp_path, dict(GREETINGS, Monday="Thứ hai")))
    described = source.describe()
    assert described["name"] == "gettext"
    assert described["counts"]["pairs"] == 3
    assert described["counts"]["catalogues"] == 1
    assert described["skipped"] == {"fewer than two words": 1}
    assert described["source"].endswith("en-vi, train; from 1 gettext catalogues")
    batches = list(itertools.islice(source.batches(), 3))
    source.close()
    assert [batch.items["sentences"] for batch in batches] == [4, 4, 4]
    assert {batch.items["tokens"] for batch in batches} <= {17, 18}  # 4 + 4 + 5, and one of them again


def test_a_folder_is_searched_for_catalogues(seq2seq, tmp_path, open_gettext):
    write_catalogue(tmp_path / "locale", GREETINGS)
    assert open_gettext(seq2seq, str(tmp_path / "locale")).describe()["counts"]["pairs"] == 3


def test_a_second_run_finds_the_folder_of_the_first(tmp_path):
    path = write_catalogue(tmp_path, dict(GREETINGS, Monday="Thứ hai"))
    first = gettext.extract([path], "vi", str(tmp_path / "cache"))
    written = os.stat(os.path.join(first[0], "train.en")).st_mtime_ns
    assert gettext.extract([path], "vi", str(tmp_path / "cache")) == first
    assert os.stat(os.path.join(first[0], "train.en")).st_mtime_ns == written
    assert os.listdir(str(tmp_path / "cache")) == [os.path.basename(first[0])]


def test_other_catalogues_or_another_language_have_another_folder(tmp_path):
    path = write_catalogue(tmp_path, GREETINGS)
    cache = str(tmp_path / "cache")
    folders = [gettext.extract([path], "vi", cache)[0], gettext.extract([path], "vie", cache)[0]]
    write_catalogue(tmp_path, dict(GREETINGS, Another="Một cái khác"))
    folders.append(gettext.extract([path], "vi", cache)[0])
    assert len(set(folders)) == 3


def test_a_run_that_was_overtaken_takes_the_folder_of_the_faster(tmp_path):
    folder = str(tmp_path / "cache" / "pairs")
    gettext.write(folder, {"train.en": "first\n", gettext.COMPLETE: "{}"})
    gettext.write(folder, {"train.en": "second\n", gettext.COMPLETE: "{}"})
    with open(os.path.join(folder, "train.en")) as file:
        assert file.read() == "first\n"
    assert os.listdir(str(tmp_path / "cache")) == ["pairs"]


def test_an_incomplete_folder_is_named_with_the_way_out(tmp_path):
    path = write_catalogue(tmp_path, GREETINGS)
    folder = gettext.extract([path], "vi", str(tmp_path / "cache"))[0]
    os.remove(os.path.join(folder, gettext.COMPLETE))
    with pytest.raises(BadData, match="can't write .*en-vi-.*: remove it, or set data.root"):
        gettext.extract([path], "vi", str(tmp_path / "cache"))


def test_a_root_that_cannot_be_written_is_named(tmp_path):
    path = write_catalogue(tmp_path, GREETINGS)
    tmp_path.joinpath("file").write_text("")
    with pytest.raises(BadData, match="data.root=.*file can't be written .*: set it to a folder of your own"):
        gettext.extract([path], "vi", str(tmp_path / "file"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\3\4 this is no catalogue",
        catalogue(GREETINGS)[:60],
        catalogue(GREETINGS)[:-40],
        b"\xde\x12\x04\x95" + b"\xff" * 40,
    ],
)
def test_a_broken_catalogue_is_skipped_and_named_and_alone_is_an_error(tmp_path, content):
    good = write_catalogue(tmp_path, GREETINGS)
    broken = tmp_path / "broken.mo"
    broken.write_bytes(content)
    folder, _, skipped = gettext.extract([good, str(broken)], "vi", str(tmp_path / "cache"))
    assert len(read_pairs(folder)) == 3
    (why,) = skipped
    assert str(broken) in why and "is no catalogue" in why
    with pytest.raises(BadData, match="no sentence pair for data.language=vi in 1 catalogues .*broken.mo"):
        gettext.extract([str(broken)], "vi", str(tmp_path / "cache"))


def test_catalogues_that_are_not_there_are_named(seq2seq, tmp_path, open_gettext):
    with pytest.raises(BadData, match="data.catalogues: .*nowhere is no .mo file and holds no vi/LC_MESSAGES/"):
        open_gettext(seq2seq, str(tmp_path / "nowhere"))


if importlib.util.find_spec("django"):  # where the controller's dependencies are: real catalogues of a real program

    def test_djangos_own_catalogues_give_hundreds_of_pairs(seq2seq, open_gettext):
        root = os.path.dirname(importlib.util.find_spec("django").origin)
        described = open_gettext(seq2seq, root).describe()
        assert described["counts"]["catalogues"] >= 10
        assert described["counts"]["pairs"] > 250
        assert not [why for why in described["skipped"] if "catalogue" in why]
