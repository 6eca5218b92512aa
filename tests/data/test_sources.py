"""What is known of the sources before one is opened, and how the request chooses one."""

import os
import re

import pytest

from tbd import data
from tbd.data.source import BadData, Batch, Share, Source

CONF = os.path.join(os.path.dirname(__file__), "..", "..", "conf", "data")


def test_every_source_has_a_module_and_a_configuration_with_exactly_its_options():
    assert sorted(name[:-5] for name in os.listdir(CONF) if name.endswith(".yaml")) == data.names()
    for name in data.names():
        assert os.path.isfile(os.path.join(os.path.dirname(data.__file__), name + ".py"))
        with open(os.path.join(CONF, name + ".yaml"), encoding="utf-8") as file:
            keys = re.findall(r"^(\w+):", file.read(), re.MULTILINE)
        assert keys[0] == "name"
        assert sorted(keys[1:]) == sorted(data.SOURCES[name].options)


def test_synthetic_serves_every_model_and_the_others_their_own():
    serving = {model: [name for name in data.names() if data.serves(name, model)] for model in ("resnet50", "seq2seq")}
    kinds = {name: data.SOURCES[name].kind for name in data.names()}
    for name in serving["seq2seq"]:
        assert kinds[name] in (None, "sentence pairs")
    assert serving == {"resnet50": ["imagenet", "synthetic"], "seq2seq": ["gettext", "iwslt15", "synthetic"]}


def test_a_source_of_another_model_is_refused_with_those_that_fit(resnet50, request_of):
    with pytest.raises(
        BadData, match="data=iwslt15 has no batches for model=resnet50: use data=imagenet or data=synth"
    ):
        data.open_source(resnet50, request_of("iwslt15", root="/"))


def test_an_unknown_source_is_refused_with_the_known_ones(resnet50, request_of):
    with pytest.raises(BadData, match=f"data=imagnet is not one of {', '.join(data.names())}"):
        data.open_source(resnet50, request_of("imagnet"))


def test_an_option_without_a_value_is_named(resnet50, request_of):
    options = {"root": None, "split": "train", "workers": 1}
    with pytest.raises(BadData, match="data=imagenet needs a value for data.max_broken_share and data.root"):
        data.open_source(resnet50, request_of("imagenet", **options))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"name": "synthetic", "root": "/x"}, "data=synthetic has no option root; it has none"),
        (
            {"name": "imagenet", "worker": 2},
            "data=imagenet has no option worker; it has max_broken_share, root, split, w",
        ),
        ({"name": "imagenet", "workers": 0}, "data.workers=0 must be a whole number of at least 1"),
        ({"name": "imagenet", "workers": 1.5}, "data.workers=1.5 must be a whole number of at least 1"),
        ({"name": "imagenet", "workers": True}, "data.workers=True must be a whole number of at least 1"),
        ({"name": "imagenet", "max_broken_share": 1.5}, "data.max_broken_share=1.5 must be a number from 0.0 to 1.0"),
        (
            {"name": "imagenet", "max_broken_share": float("nan")},
            "data.max_broken_share=nan must be a number from 0.0 to 1.0",
        ),
        ({"name": "iwslt15", "root": 2015}, "data.root=2015 must be text"),
        ({"name": "iwslt15", "max_length": "fifty"}, "data.max_length=fifty must be a whole number of at least 1"),
        ({"name": "gettext", "catalogues": "/usr"}, "data.catalogues=/usr must be a list"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        data.check(options)


def test_values_of_the_right_type_pass():
    options = {"name": "imagenet", "root": "/x", "split": None, "workers": 4, "max_broken_share": 0}
    assert data.check(options) == options


def test_a_source_makes_its_paths_absolute_and_fills_in_its_defaults(monkeypatch, tmp_path):
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.setenv("HOME", "/home/user")
    text = {"name": "iwslt15", "root": "texts", "split": "train", "source": "en", "target": "vi", "max_length": 50}
    assert data.resolve(text, "/cache") == dict(text, root=str(tmp_path / "texts"))
    pictures = {"name": "imagenet", "root": "~/jpegs", "split": "train", "workers": 1, "max_broken_share": 0.1}
    assert data.resolve(pictures, "/cache") == dict(pictures, root="/home/user/jpegs")
    messages = {"name": "gettext", "language": "vi", "catalogues": None, "root": None, "max_length": 50}
    resolved = data.resolve(messages, "/cache")
    assert resolved["root"] == "/cache/gettext"
    assert resolved["catalogues"] and all(os.path.isdir(folder) for folder in resolved["catalogues"])
    named = data.resolve(dict(messages, catalogues=["some.mo"], root="here"), "/cache")
    assert (named["catalogues"], named["root"]) == ([str(tmp_path / "some.mo")], str(tmp_path / "here"))
    assert data.resolve({"name": "synthetic"}, "/cache") == {"name": "synthetic"}
    with pytest.raises(ValueError, match="data.max_length=0 must be a whole number of at least 1"):
        data.resolve(dict(messages, max_length=0), "/cache")


def test_a_share_is_of_the_seeds_global_batch():
    shares = [Share({"seed": 5, "rank": rank, "world_size": 3, "batch_size": 4}) for rank in range(3)]
    assert {(share.batch_size, tuple(share.seed)) for share in shares} == {(12, (5, 0))}
    assert [list(share.of(range(7))) for share in shares] == [[0, 3, 6], [1, 4], [2, 5]]
    assert shares[1].seeds(8, 6) == [[5, 0, 8, 1], [5, 0, 8, 4]]
    with pytest.raises(BadData, match="a batch of 2 rows is too few for 3 ranks: raise batch_size"):
        shares[0].of(range(2))


def test_the_largest_batch_is_the_one_of_most_work():
    class Three(Source):
        def one_of_each_shape(self):
            return [Batch({}, {}, flops, work) for flops, work in [(9, 1), (1, 5), (3, 2)]]

    assert Three().largest().work == 5
