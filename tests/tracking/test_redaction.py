import json

import pytest

from tbd.tracking.redaction import harmless, is_credential, redact, redact_object, secrets_of, without_credentials


@pytest.mark.parametrize(
    "text, clean",
    [
        ("postgresql://bob:hunter2@db:5432/x", "postgresql://***@db:5432/x"),
        ("https://bob:hun@ter2@host/x", "https://***@host/x"),
        ("https://token@host", "https://***@host"),
        ("get http://h/p?token=hunter2&x=1 now", "get http://h/p?token=***&x=1 now"),
        ("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=***"),
        ('{"api_key": "hun ter2", "x": 1}', '{"api_key": "***", "x": 1}'),
        ("password: 'hun ter2'", "password: '***'"),
        ("Authorization: Bearer hunter2hunter2", "Authorization: *** ***"),
        ("key AKIAABCDEFGHIJKLMNOP here", "key *** here"),
        ("a\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----\nb\n", "a\n***\nb\n"),
    ],
)
def test_credentials_are_hidden(text: str, clean: str) -> None:
    assert redact(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////home/me/mlflow.db",
        "http://host/a@b",
        "tokens: 512, max_tokens=5, tokenizer: words, source_tokens: 4",
        '{"event": "phase", "pass": "timing", "name": "warmup"}',
        "key=value monkey: banana keyboard=x",
        "12:30:01 step 5: 80.0 images/s, 1e-5",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["MLFLOW_TRACKING_PASSWORD", "apiKey", "hf_token", "aws_access_key_id", "db.passwd"])
def test_names_of_credentials(name: str) -> None:
    assert is_credential(name)


@pytest.mark.parametrize("name", ["tokens", "vocabulary_tokens", "passes", "measure.passes", "keys", "secretary"])
def test_names_of_other_things(name: str) -> None:
    assert not is_credential(name)


def test_a_child_that_needs_no_credential_gets_none() -> None:
    given = {"PATH": "/bin", "MLFLOW_TRACKING_PASSWORD": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ACCESS_KEY_ID": "x"}
    assert harmless({**given, "SLURM_JOB_ID": "7"}) == {"PATH": "/bin", "SLURM_JOB_ID": "7"}


def test_values_of_the_environment_are_hidden_in_every_spelling() -> None:
    secrets = secrets_of({"DB_PASSWORD": 'hun/ter"2', "HOME": "/home/me", "SHORT_TOKEN": "abc", "PATH": "hunter"})
    text = 'hun/ter"2 hun%2Fter%222 ' + json.dumps({"x": 'hun/ter"2'}) + " /home/me abc hunter"
    assert redact(text, secrets) == '*** *** {"x": "***"} /home/me abc hunter'


def test_objects_keep_their_form() -> None:
    value = {"tracking": {"uri": "http://a:b@c", "token": 5}, "names": ["x", None, True], "password": "", "lr": 0.1}
    assert redact_object(value) == {**value, "tracking": {"uri": "http://***@c", "token": "***"}}


def test_a_store_is_named_without_credentials() -> None:
    assert without_credentials("https://bob:hunter2@host:5000/mlflow?token=abc") == "https://host:5000/mlflow?token=***"
