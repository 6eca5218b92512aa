"""Real translated sentences without a download: the messages of programs, from their gettext catalogues (.mo).

The catalogues' pairs are cleaned, parted into words and written in IWSLT15's form (train.en, train.vi), which
tbd/data/iwslt15.py then reads. What is kept and what is dropped: docs/data.md.
"""

import collections
import gettext
import hashlib
import html
import importlib.util
import io
import json
import os
import re
import shutil
import struct
import tempfile
import unicodedata

from tbd.data.iwslt15 import ParallelText
from tbd.data.source import BadData, absolute

LONGEST = 50  # words a side; a longer message is dropped, since cutting both sides would pair unlike halves
RATIO = 9  # of the sides' lengths; as in Moses' clean-corpus-n.perl, which prepares translation corpora
MACHINE = "/usr/share/locale"  # where programs' catalogues are by the Filesystem Hierarchy Standard 3.0, section 4.11
SOURCE = "en"  # gettext's message ids are English by convention
COMPLETE = "skipped.json"  # {why: count of messages dropped}; a folder that has it is complete

TAG = re.compile(r"</?(?:a|b|big|br|code|em|h\d|i|kbd|li|p|pre|small|span|strong|sub|sup|tt|u|ul)\b[^<>]*>", re.I)
ACCELERATOR = re.compile(r"\s*\([_&]\w\)|(?<![&_])[_&](?=\w)")  # "(_S)" is how Chinese and Japanese catalogues write it
MARKED = re.compile(r"\w*[_&]\w+")
WORD = re.compile(
    r"%\(\w+\)[a-z]"  # a placeholder is one word: %(name)s,
    r"|%\d*\$?[-+#0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t|L)?[a-zA-Z]"  # %s, %5.2f, %1$s
    r"|\$?\{\w*\}"  # and {name};
    r"|(?<![\w-])--?[a-z][\w-]*"  # so is an option: --all
    r"|\w+(?:[-'\u2019.]\w+)*"  # words, numbers; file.txt and don't are one
    r"|[^\w\s]",  # any other sign by itself
    re.I,
)


def resolve(options, cache):
    """By default the catalogues of Django, which the controller has for their sake, and of this machine's programs."""
    catalogues = options["catalogues"] or catalogue_folders()
    root = options["root"] or os.path.join(cache, "gettext")
    return dict(options, catalogues=[absolute(path) for path in catalogues], root=absolute(root))


def django():
    """The folder of the package django, or None."""
    package = importlib.util.find_spec("django")
    return os.path.dirname(package.origin) if package and package.origin else None


def open_source(specification, request):
    """The pairs of the catalogues `data.catalogues` for `data.language`, by way of a folder below `data.root`.

    Each set of catalogues has a folder of its own there, made once. Raises BadData where they hold no pair.
    """
    data = request["data"]
    folder, catalogues, skipped = extract(data["catalogues"], data["language"], data["root"])
    return Catalogues(specification, request, folder, catalogues, skipped)


class Catalogues(ParallelText):
    def __init__(self, specification, request, folder, catalogues, skipped):
        super(Catalogues, self).__init__(
            "gettext", specification, request, folder, "train", SOURCE, request["data"]["language"]
        )
        self._source = "%s; from %d gettext catalogues" % (self._source, len(catalogues))
        self._counts["catalogues"] = len(catalogues)
        self._skipped.update(skipped)


def catalogue_folders():
    """Where catalogues are to be looked for: in Django, and among this machine's programs."""
    return [folder for folder in [django(), MACHINE] if folder and os.path.isdir(folder)]


def find_catalogues(roots, language):
    """The paths of every <language>/LC_MESSAGES/*.mo below the folders `roots`, sorted, without repetition."""
    found = set()
    for root in roots:
        for folder, _, files in os.walk(root):
            if os.path.basename(folder) == "LC_MESSAGES" and os.path.basename(os.path.dirname(folder)) == language:
                found.update(os.path.realpath(os.path.join(folder, name)) for name in files if name.endswith(".mo"))
    return sorted(found)


def extract(paths, language, root):
    """Write the pairs of the catalogues at `paths` (files, or folders to search) below `root`.

    Gives the folder with train.en and train.<language>, the catalogues used and {why: count of what was skipped}. The
    folder's name is made of what its content depends on, and it appears complete or not at all: any number of runs can
    do this at once.
    """
    catalogues = []
    for path in paths:
        found = [path] if os.path.isfile(path) else find_catalogues([path], language)
        if not found:
            raise BadData("data.catalogues: %s is no .mo file and holds no %s/LC_MESSAGES/*.mo" % (path, language))
        catalogues.extend(found)
    contents, skipped = collections.OrderedDict(), collections.Counter()
    for path in sorted(set(catalogues)):
        try:
            with open(path, "rb") as file:
                contents[path] = file.read()
        except OSError as error:
            skipped["%s can't be read (%s)" % (path, error.strerror)] += 1
    digest = hashlib.sha256()
    for content in [own_source(), language.encode("utf-8")] + list(contents.values()):
        digest.update(hashlib.sha256(content).digest())
    folder = os.path.join(root, "%s-%s-%s" % (SOURCE, language, digest.hexdigest()[:16]))
    complete = os.path.join(folder, COMPLETE)
    if not os.path.exists(complete):
        pairs = clean(messages(contents, skipped), skipped)
        if not pairs:
            raise BadData(
                "data=gettext found no sentence pair for data.language=%s in %d catalogues (%s): name others in "
                "data.catalogues, or use data=synthetic" % (language, len(catalogues), ", ".join(catalogues[:3]))
            )
        texts = {"train." + SOURCE: lines(s for s, _ in pairs), "train." + language: lines(t for _, t in pairs)}
        texts[COMPLETE] = json.dumps(skipped, indent=1, sort_keys=True) + "\n"
        write(folder, texts)
    with open(complete, encoding="utf-8") as file:
        return folder, list(contents), json.load(file)


def own_source():
    """This file's bytes: another way to clean makes other folders."""
    with open(__file__, "rb") as file:
        return file.read()


def messages(contents, skipped):
    """(English, translation) of every message in the catalogues {path: bytes}; of plurals the singular and form 0."""
    for path, content in contents.items():
        try:
            catalogue = translations(content)
        except (OSError, ValueError, struct.error, IndexError, LookupError) as error:
            skipped["%s is no catalogue (%s)" % (path, error)] += 1
            continue
        for key, translation in catalogue.items():
            english, form = key if isinstance(key, tuple) else (key, 0)
            if english and form == 0:  # the empty id is the catalogue's header
                yield english.split("\4")[-1], translation  # "context\4id"


def translations(content):
    """{id or (id, plural form): translation} of a .mo file's bytes."""
    # the standard library reads the format but has no public way to list what it read
    return gettext.GNUTranslations(io.BytesIO(content))._catalog


def clean(pairs, skipped):
    """A list of (English words, translated words) for training, each English sentence once, in the pairs' order.

    Counts in `skipped` what it drops and why.
    """
    kept = collections.OrderedDict()
    for english, translation in pairs:
        for source, target in paragraphs(english, translation):
            source, target = plain(source, target)
            source, target = WORD.findall(source), WORD.findall(target)
            why = unfit(source, target)
            if why is None and tuple(source) in kept:
                why = "repeated"
            if why is None:
                kept[tuple(source)] = target
            else:
                skipped[why] += 1
    return list(kept.items())


def paragraphs(english, translation):
    """The pair's paragraphs as pairs where both sides have equally many, else the whole."""
    sides = [re.split(r"\n\s*\n", text.strip()) for text in (english, translation)]
    return list(zip(*sides)) if len(sides[0]) == len(sides[1]) else [(english, translation)]


def plain(english, translation):
    """Both sides without HTML tags and keyboard accelerators ("_Open", "E&xit"), in Unicode's composed form.

    A word with such a mark that both sides share is an identifier (max_length, R&D) and stays.
    """
    sides = [unicodedata.normalize("NFC", html.unescape(TAG.sub(" ", text))) for text in (english, translation)]
    shared = set(MARKED.findall(sides[0])) & set(MARKED.findall(sides[1]))
    if not shared:
        sides = [ACCELERATOR.sub("", side) for side in sides]
    return sides


def unfit(source, target):
    """Why a pair of word lists is of no use for training, or None."""
    if not target:
        return "not translated"
    if source == target:
        return "equal to the original"
    if sum(is_word(w) for w in source) < 2 or not any(is_word(w) for w in target):
        return "fewer than two words"
    if max(len(source), len(target)) > LONGEST:
        return "longer than %d words" % LONGEST
    if max(len(source), len(target)) > RATIO * min(len(source), len(target)):
        return "lengths differ %d times" % RATIO
    return None


def is_word(token):
    return token[0].isalpha() and len(token) > 1 or token in ("a", "I")


def lines(sentences):
    return "".join(" ".join(sentence) + "\n" for sentence in sentences)


def write(folder, files):
    """Make `folder` with the texts {name: text} in it, all at once; leave it as it is where another run was faster."""
    root = os.path.dirname(folder)
    try:
        os.makedirs(root, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix="." + os.path.basename(folder) + "-", dir=root)
    except OSError as error:
        raise BadData("data.root=%s can't be written (%s): set it to a folder of your own" % (root, error.strerror))
    try:
        for name, text in files.items():
            with open(os.path.join(temporary, name), "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        os.chmod(temporary, 0o755)  # mkdtemp's folders are their owner's only
        os.rename(temporary, folder)
    except OSError as error:
        if not os.path.exists(os.path.join(folder, COMPLETE)):
            raise BadData("can't write %s (%s): remove it, or set data.root" % (folder, error.strerror))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
