"""Which tools a few words mean."""

from __future__ import annotations

import pytest

from mcpd.broker.ranking import Document, Index, rank


def found(query: str, *documents: Document | str, limit: int = 10) -> list[str]:
    """Return the names that match among the tools of one server, best first."""
    whole = [Document(one) if isinstance(one, str) else one for one in documents]
    best, _ = rank(query, [Index("s", whole)], limit)
    return [whole[hit.position].name for hit in best]


# -- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["readFile", "read_file", "read-file", "files.read", "fs/read:file", "ReadFILE", "file2"]
)
def test_a_name_is_split_into_words_wherever_it_shows_them(name: str) -> None:
    assert found("file", name, "other") == [name]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("http", "parseHTTPResponse"),
        ("response", "parseHTTPResponse"),
        ("base64", "encode_base64"),
        ("s3", "listS3Buckets"),
        ("github", "search_gitHub"),
        ("GitHub", "search_github"),
        ("getUser", "get_user_by_id"),
        ("get_user", "getUserById"),
        ("getuser", "get-user"),
        ("ÜBERSICHT", "zeige_übersicht"),
        ("문서", "문서_찾기"),
        ("文件", "搜索文件"),
    ],
)
def test_spellings_of_the_same_words_meet(query: str, name: str) -> None:
    assert found(query, "other", name, "another") == [name]


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("file", "files"),
        ("query", "queries"),
        ("movie", "movies"),
        ("class", "classes"),
        ("box", "boxes"),
        ("search", "searches"),
        ("cache", "caches"),
        ("database", "databases"),
        ("id", "ids"),
    ],
)
def test_a_plural_finds_its_singular_and_the_other_way_round(one: str, many: str) -> None:
    assert found(many, f"get_{one}", "other") == [f"get_{one}"]
    assert found(one, f"get_{many}", "other") == [f"get_{many}"]


def test_what_only_looks_like_a_plural_stays_what_it_is() -> None:
    assert found("statu", "status") == ["status"]
    assert found("stats", "status", "clas", "this") == []
    assert found("thi", "class", "this") == ["this"]


def test_the_beginning_of_a_word_finds_it_and_the_word_itself_is_better() -> None:
    assert found("repo", "get_repository", "get_replica", "repo_get", "depot") == ["repo_get", "get_repository"]


def test_one_letter_is_the_beginning_of_nothing() -> None:
    assert found("r", "repository", "r_script") == ["r_script"]


def test_the_words_of_a_question_that_ask_for_nothing_are_not_looked_for() -> None:
    tools = Document("to_do", "", "how do I do this"), Document("remove", "", "Delete a file.")

    assert found("how do I delete the file", *tools) == ["remove"]
    assert found("to do", *tools) == ["to_do"]


@pytest.mark.parametrize("query", ["", "  ", "???", "\N{PILE OF POO}", "_"])
def test_no_words_find_nothing(query: str) -> None:
    assert found(query, "a", "-", "") == []


# -- order ---------------------------------------------------------------------------------------


def test_a_name_is_worth_more_than_a_title_and_a_title_more_than_a_description() -> None:
    described = Document("c", "", "issue issue issue")
    titled = Document("b", "Issue")

    assert found("issue", described, titled, Document("the_long_way_to_an_issue")) == [
        "the_long_way_to_an_issue",
        "b",
        "c",
    ]


def test_what_has_all_the_words_comes_before_what_has_one_of_them() -> None:
    assert found("delete comments", "delete_page", "comment_delete_all", "list_comments")[0] == "comment_delete_all"


def test_a_rare_word_counts_for_more_than_a_common_one() -> None:
    common = [f"list_{number}" for number in "abcdefgh"]

    assert found("list invoice", *common, "invoice_show")[0] == "invoice_show"


def test_a_short_name_and_a_short_description_say_it_better() -> None:
    wordy = "This also mentions mail. " + "There is much more to say about that. " * 10

    assert found("file", "move_file_to_other_place", "move_file") == ["move_file", "move_file_to_other_place"]
    assert found("mail", Document("a", "", wordy), Document("b", "", "Send mail.")) == ["b", "a"]


def test_the_name_itself_wins_over_whatever_else_matches() -> None:
    rival = Document("get_echo_echo", "Echo echo", "echo echo echo")

    assert found("echo", rival, "Echo", "echo")[:2] == ["echo", "Echo"]
    assert found("s.echo", rival, "echo")[0] == "echo"
    assert found("get", Document("get_it", "get", "get"), "get")[0] == "get"


def test_a_name_of_just_these_words_comes_next() -> None:
    rivals = "read_file_read", Document("read_file_2", "read file", "read file")

    assert found("read file", *rivals, "ReadFiles")[0] == "ReadFiles"


def test_scores_are_between_nothing_and_one_and_fall() -> None:
    tools = [Document("echo"), Document("echo_all"), Document("x", "", "an echo"), Document("y")]

    best, total = rank("echo", [Index("s", tools)], 10)

    scores = [hit.score for hit in best]
    assert scores[0] == 1.0
    assert scores == sorted(scores, reverse=True)
    assert 0 < scores[-1] < scores[1] < 0.9
    assert total == 3


def test_equal_ones_stay_in_their_order() -> None:
    names = [f"get_{letter}" for letter in "qzamb"]

    assert found("get", *names) == names


# -- many lists ----------------------------------------------------------------------------------


def test_the_lists_of_several_servers_are_ranked_as_one() -> None:
    indexes = [
        Index("one", [Document("other"), Document("send_mail")]),
        Index("empty", []),
        Index("two", [Document("mail"), Document("mail_send", "", "Send a mail.")]),
    ]

    best, total = rank("send mail", indexes, 2)

    assert [(hit.source, hit.position) for hit in best] == [(0, 1), (2, 1)]
    assert total == 3


def test_a_word_is_as_rare_as_it_is_in_all_lists_together() -> None:
    # On its own list "page" is common, and "row" is rare on the other; together it is the other way round.
    pages = Index("one", [Document("page_a"), Document("page_b")])
    rows = Index("two", [Document("row"), *(Document(f"row_{letter}") for letter in "abcdefgh")])

    best, _ = rank("page row", [rows, pages], 2)

    assert [hit.source for hit in best] == [1, 1]


def test_the_name_of_a_server_finds_its_tools() -> None:
    indexes = [Index("github", [Document("search")]), Index("wiki", [Document("search"), Document("x")])]

    best, _ = rank("wiki search", indexes, 10)
    assert [(hit.source, hit.position) for hit in best] == [(1, 0), (0, 0), (1, 1)]
    assert rank("github", indexes, 10)[1] == 1


def test_only_so_many_are_returned_and_all_are_counted() -> None:
    best, total = rank("get", [Index("s", [Document(f"get_{number}") for number in range(50)])], 3)

    assert [hit.position for hit in best] == [0, 1, 2]
    assert total == 50


# -- bounds --------------------------------------------------------------------------------------


def test_no_more_than_the_first_sentences_of_a_description_are_read() -> None:
    long = Document("a", "", "word " * 200 + "needle")

    assert found("needle", long) == []
    assert found("word", long) == ["a"]


def test_of_a_long_text_the_first_words_are_looked_for() -> None:
    text = " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")

    assert found(text, "wordp", "wordq") == ["wordp"]
