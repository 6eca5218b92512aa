"""Takes credentials out of what leaves this machine for MLflow. Pure functions but for `secrets_of` an environment.

What is taken out: user and password in URIs, values under names such as password or api_key, values that the
environment holds under such names, tokens of well-known forms, private keys. The spool itself stays as it is.
"""

import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "***"

# A name is one of a credential where these words are in it, bounded by its ends, punctuation or a change of case:
# "token" and "api_key" are, "tokens" and "tokenizer" of a translation model aren't.
_NAME = re.compile(
    r"(?:^|[^a-z])(?:password|passwd|passphrase|passcode|pwd|secrets?|token|credentials?|cookie|authorization|bearer"
    r"|(?:api|access|private|secret|account|signing|encryption)[^a-z]?key(?:[^a-z]?id)?)(?:$|[^a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_USER_IN_URI = re.compile(r"(\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/?#\"'@]+(?:@[^\s/?#\"'@]+)*@")
# name=value and "name": "value", as in query strings, DSNs, command lines, JSON and YAML
_ASSIGNMENT = re.compile(r"""\b(?P<name>[A-Za-z][\w.-]*)\\?["']?\s{0,3}[=:]\s{0,3}(?P<quote>\\?["'])?""")
_BARE_VALUE = re.compile(r"""[^\s"'\\&;,}\])]*""")
_NO_SECRETS = ("", "null", "None", "none", "true", "false", HIDDEN)
_TOKENS = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS access key ids
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bdapi[0-9a-f]{32}"
    r"|\bxox[abprs]-[\w-]{10,}|\bsk-[\w-]{20,}|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
    r"|(?<=[Bb]earer )[\w.~+/=-]{8,}|(?<=[Bb]asic )[\w+/=-]{12,}"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_END = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")


def is_credential(name: str) -> bool:
    """Whether a key, option or variable of this name holds a credential."""
    return _NAME.search(_CAMEL.sub("_", name).lower()) is not None


def harmless(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that hold no credential by their name: for a child that needs none."""
    return {name: value for name, value in environment.items() if not is_credential(name)}


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values in `environment` under credentials' names, longest first, in every spelling they may take in a text.

    Values of less than 6 characters aren't looked for: they would blot out ordinary words.
    """
    found: set[str] = set()
    for name, value in environment.items():
        if is_credential(name) and len(value) >= 6 and not value.startswith("/"):  # a path to a key file is no secret
            found |= {value, urllib.parse.quote(value, safe=""), json.dumps(value)[1:-1]}
    return sorted(found, key=len, reverse=True)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without credentials."""
    return "".join(redact_lines([text], secrets))


def redact_lines(lines: Iterable[str], secrets: Iterable[str] = ()) -> Iterator[str]:
    """The lines of a text without credentials, one for one, but for those of private keys, which are left out."""
    known = list(secrets)
    within_key = False
    for line in lines:
        if within_key:
            end = _KEY_END.search(line)
            if not end:
                continue
            line, within_key = line[end.end() :], False
        while begin := _KEY_BEGIN.search(line):
            end = _KEY_END.search(line, begin.end())
            within_key = end is None
            line = line[: begin.start()] + HIDDEN + (line[end.end() :] if end else "\n")
        for secret in known:
            line = line.replace(secret, HIDDEN)
        line = _USER_IN_URI.sub(rf"\1{HIDDEN}@", line)
        yield _hide_assigned(_TOKENS.sub(HIDDEN, line))


def redact_object(value: Any, secrets: Iterable[str] = (), name: str = "") -> Any:
    """A configuration (dicts, lists, plain values) without credentials, in its form."""
    known = list(secrets)
    if isinstance(value, Mapping):
        return {key: redact_object(inner, known, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_object(inner, known, name) for inner in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if is_credential(name):
        return HIDDEN
    return redact(value, known) if isinstance(value, str) else value


def without_credentials(uri: str) -> str:
    """A URI without user and password, and with the values of credential-like query parameters hidden."""
    return redact(_USER_IN_URI.sub(r"\1", uri))


def _hide_assigned(line: str) -> str:
    """`line` with the values hidden that stand after a credential's name."""
    parts, done = [], 0
    for match in _ASSIGNMENT.finditer(line):
        if match.start() < done or not is_credential(match["name"]):
            continue
        begin = match.end()
        end = line.find(match["quote"], begin) if match["quote"] else -1
        if end < 0:
            bare = _BARE_VALUE.match(line, begin)
            end = bare.end() if bare else begin
        if line[begin:end] not in _NO_SECRETS:
            parts += [line[done:begin], HIDDEN]
            done = end
    return "".join([*parts, line[done:]])
