"""Dataset URIs: what each part means, and that printing is the inverse of parsing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vrldata.errors import UriError
from vrldata.uri import DatasetUri


def test_a_plain_path_is_a_location_at_its_newest_state() -> None:
    assert DatasetUri.parse("data/clips/") == DatasetUri("data/clips")


@pytest.mark.parametrize(
    "location",
    ["data/clips", "/abs/clips", "s3://bucket/a/b", "gs://b/p", "az://c/p", "hf://datasets/me/c.v-1"],
)
def test_the_release_follows_the_last_at_sign(location: str) -> None:
    uri = DatasetUri.parse(f"{location}@v1.2?limit=3")
    assert (uri.location, uri.release, uri.limit) == (location, "v1.2", 3)


def test_latest_is_the_newest_state() -> None:
    assert DatasetUri.parse("clips@latest").release is None


def test_a_path_object_is_read_like_its_text() -> None:
    assert DatasetUri.parse(Path("clips@v1")).release == "v1"


def test_a_parsed_uri_passes_through() -> None:
    uri = DatasetUri("clips", split="val")
    assert DatasetUri.parse(uri) is uri


def test_query_keys_are_typed() -> None:
    uri = DatasetUri.parse("clips?split=val&limit=10&shuffle=7&columns=sample_id, answer")
    assert uri == DatasetUri("clips", split="val", limit=10, shuffle=7, columns=("sample_id", "answer"))


@pytest.mark.parametrize(
    "text",
    ["problem_type = 'math' AND pass_rate > 0", "problem_type%20=%20%27math%27%20AND%20pass_rate%20%3E%200"],
)
def test_filters_may_be_percent_encoded_or_plain(text: str) -> None:
    assert DatasetUri.parse(f"clips?filter={text}").filter == "problem_type = 'math' AND pass_rate > 0"


def test_an_ampersand_between_quotes_is_part_of_the_filter() -> None:
    uri = DatasetUri.parse("clips?filter=data_source = 'Q&A'&limit=2")
    assert (uri.filter, uri.limit) == ("data_source = 'Q&A'", 2)


def test_a_percent_sign_of_like_stays() -> None:
    assert DatasetUri.parse("clips?filter=problem LIKE '%?' ").filter == "problem LIKE '%?'"


def test_an_at_sign_in_a_filter_is_no_release() -> None:
    assert DatasetUri.parse("clips?filter=data_source = 'a@b'").release is None


def test_an_at_sign_in_a_folder_above_is_no_release() -> None:
    assert DatasetUri.parse("me@home/clips") == DatasetUri("me@home/clips")


def test_the_longest_existing_location_wins(tmp_path: Path) -> None:
    (tmp_path / "clips@home").mkdir()
    (tmp_path / "clips").mkdir()
    assert DatasetUri.parse(f"{tmp_path}/clips@home") == DatasetUri(f"{tmp_path}/clips@home")
    assert DatasetUri.parse(f"{tmp_path}/clips@home@v1") == DatasetUri(f"{tmp_path}/clips@home", "v1")
    assert DatasetUri.parse(f"{tmp_path}/clips@v1") == DatasetUri(f"{tmp_path}/clips", "v1")


def test_a_question_mark_may_be_part_of_an_existing_folder(tmp_path: Path) -> None:
    (tmp_path / "why?").mkdir()
    assert DatasetUri.parse(f"{tmp_path}/why?@v1?limit=1") == DatasetUri(f"{tmp_path}/why?", "v1", limit=1)


def test_the_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert DatasetUri.parse("~/clips@v1") == DatasetUri(f"{tmp_path}/clips", "v1")


def test_file_locations_become_paths() -> None:
    assert DatasetUri.parse("file:///data/my%20clips@v1") == DatasetUri("/data/my clips", "v1")


def test_only_local_locations_are_local() -> None:
    assert DatasetUri.parse("file:///a").is_local
    assert not DatasetUri.parse("s3://a/b").is_local


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("@v1", "names no location"),
        ("s3://", "names no location"),
        ("hff://datasets/a/b", "unknown scheme 'hff'. Did you mean 'hf'?"),
        ("hf://me/clips", "hf://datasets/<org>/<name>"),
        ("hf://datasets/me/clips@v1/data", "hf://datasets/<org>/<name>"),
        ("file://host/x", "three slashes"),
        ("clips@", "'' is no release name"),
        ("clips@a b", "'a b' is no release name"),
        ("clips?spilt=val", "unknown key 'spilt'. Did you mean 'split'?"),
        ("clips?limit", "key 'limit' has no value"),
        ("clips?filter=", "key 'filter' has no value"),
        ("clips?limit=ten", "limit takes a whole number from 0 on, found 'ten'"),
        ("clips?limit=-1", "found '-1'"),
        ("clips?limit=1&limit=2", "stands twice"),
        ("clips?columns=a,,b", "separated by commas"),
        ("a\x00b", "NUL"),
    ],
)
def test_a_malformed_uri_says_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(UriError) as caught:
        DatasetUri.parse(text)
    assert part in str(caught.value)


def test_an_error_shows_how_the_uri_was_read() -> None:
    with pytest.raises(UriError, match=r"read as location 'clips', release 'v1', query 'where=a'"):
        DatasetUri.parse("clips@v1?where=a")


@given(
    uri=st.builds(
        DatasetUri,
        location=st.sampled_from(["clips", "/nowhere/a@b", "s3://bucket/p@q", "hf://datasets/me/clips"]),
        release=st.none()
        | st.from_regex(r"\A[a-z0-9][a-z0-9._-]{0,8}\Z").filter(lambda name: name != "latest"),
        filter=st.none() | st.text(min_size=1).map(str.strip).filter(bool),
        split=st.none() | st.sampled_from(["train", "val"]),
        limit=st.none() | st.integers(0, 10**6),
        shuffle=st.none() | st.integers(0, 10**6),
        columns=st.lists(st.sampled_from(["sample_id", "answer"]), unique=True).map(tuple),
    )
)
def test_printing_is_the_inverse_of_parsing(uri: DatasetUri) -> None:
    assert DatasetUri.parse(str(uri)) == uri
