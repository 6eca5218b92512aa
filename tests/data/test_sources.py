"""What is known of the sources before one is opened, and how the request chooses one."""

import os
import re

import pytest

from tbd import data
from tbd.data.source import BadData

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
    assert serving == {"resnet50": ["imagenet", "synthetic"], "seq2seq": ["gettext", "iwslt15", "synthetic"]}


def test_a_source_of_another_model_is_refused_with_those_that_fit(resnet50, request_of):
    with pytest.raises(
        BadData, match="data=iwslt15 has no batches for model=resnet50: use data=imagenet or data=synth"
    ):
        data.open_source(resnet50, request_of("iwslt15", root="/"))


def test_an_unknown_source_is_refused_with_the_known_ones(resnet50, request_of):
    with pytest.raises(BadData, match="data=imagnet is not one of gettext, imagenet, iwslt15, synthetic"):
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
        ({"name": "imagenet", "workers": 0}, "data.workers=0 is less than 1"),
        ({"name": "imagenet", "workers": 1.5}, "data.workers=1.5 is not a whole number"),
        ({"name": "imagenet", "workers": True}, "data.workers=True is not a whole number"),
        ({"name": "imagenet", "max_broken_share": 1.5}, "data.max_broken_share=1.5 is more than 1.0"),
        ({"name": "imagenet", "max_broken_share": float("nan")}, "data.max_broken_share=nan is less than 0.0"),
        ({"name": "iwslt15", "root": 2015}, "data.root=2015 is not text"),
        ({"name": "iwslt15", "max_length": "fifty"}, "data.max_length=fifty is not a whole number"),
        ({"name": "gettext", "catalogues": "/usr"}, "data.catalogues=/usr is not a list"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        data.check(options)


def test_values_of_the_right_type_pass():
    data.check({"name": "imagenet", "root": "/x", "split": None, "workers": 4, "max_broken_share": 0})
