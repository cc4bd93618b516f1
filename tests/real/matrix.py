"""Every method of MCP: who sends it in which revision, what becomes of it, and the tests that show it.

`c>s` is from the client to the server, `s>c` the other way. In the modern revision a server asks by an
interim result, which is written here as if it were a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.real.eras import LEGACY, MODERN, PINNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ALL = (*LEGACY, MODERN)
NEWEST_LEGACY = LEGACY[-1:]
FORMS = (*LEGACY[2:], MODERN)
ENDS_HERE = "test_what_a_client_says_for_itself_ends_at_the_daemon"


@dataclass(frozen=True)
class Row:
    """Where a method exists, what the daemon does with it, and by which tests that is shown."""

    revisions: tuple[str, ...]
    duty: str
    tests: tuple[str, ...]


ROWS = {
    "initialize c>s": Row(LEGACY, "ends here", ("test_initialize_is_the_daemons_own_and_comes_first", ENDS_HERE)),
    "notifications/initialized c>s": Row(
        LEGACY, "ends here", ("test_initialize_is_the_daemons_own_and_comes_first", ENDS_HERE)
    ),
    "server/discover c>s": Row(
        (MODERN,), "ends here", ("test_server_discover_is_the_daemons_own_and_comes_first", ENDS_HERE)
    ),
    "ping c>s": Row(LEGACY, "ends here", ("test_ping_of_a_client_is_answered_by_the_daemon", ENDS_HERE)),
    "ping s>c": Row(LEGACY, "ends here", ("test_ping_of_a_server_is_answered_by_the_daemon",)),
    "tools/list c>s": Row(ALL, "cached", ("test_lists_are_whole_and_fetched_once",)),
    "prompts/list c>s": Row(ALL, "cached", ("test_lists_are_whole_and_fetched_once",)),
    "resources/list c>s": Row(ALL, "cached", ("test_lists_are_whole_and_fetched_once",)),
    "resources/templates/list c>s": Row(ALL, "cached", ("test_lists_are_whole_and_fetched_once",)),
    "tools/call c>s": Row(
        ALL,
        "forwarded",
        (
            "test_tools_call_is_forwarded_and_answered",
            "test_tools_call_passes_on_what_is_an_error",
            "test_tools_call_passes_on_vendor_metadata_and_no_id_of_the_client",
            "test_everything_that_is_called_answers",
        ),
    ),
    "prompts/get c>s": Row(
        ALL, "forwarded", ("test_prompts_get_is_forwarded_and_answered", "test_everything_gives_its_prompts")
    ),
    "resources/read c>s": Row(
        ALL, "forwarded", ("test_resources_read_is_forwarded_and_answered", "test_everything_reads_its_resources")
    ),
    "resources/subscribe c>s": Row(
        LEGACY,
        "counted",
        (
            "test_resources_subscribe_and_unsubscribe_are_sent_for_the_first_and_the_last",
            "test_everything_updates_a_subscriber",
            ENDS_HERE,
        ),
    ),
    "resources/unsubscribe c>s": Row(
        LEGACY, "counted", ("test_resources_subscribe_and_unsubscribe_are_sent_for_the_first_and_the_last", ENDS_HERE)
    ),
    "subscriptions/listen c>s": Row(
        (MODERN,), "counted", ("test_subscriptions_listen_names_what_somebody_wants_to_know", ENDS_HERE)
    ),
    "completion/complete c>s": Row(
        ALL, "forwarded", ("test_completion_complete_is_forwarded_and_answered", "test_everything_completes")
    ),
    "logging/setLevel c>s": Row(
        LEGACY, "per client", ("test_logging_set_level_is_the_most_talkative_that_a_client_wants", ENDS_HERE)
    ),
    "roots/list s>c": Row(
        ALL,
        "routed",
        (
            "test_roots_list_of_a_projects_server_is_the_project",
            "test_roots_list_of_no_project_asks_the_client_that_called",
            "test_everything_has_roots",
        ),
    ),
    "sampling/createMessage s>c": Row(
        ALL, "routed", ("test_sampling_create_message_asks_the_client_that_called", "test_everything_samples")
    ),
    "elicitation/create s>c": Row(
        FORMS,
        "routed",
        (
            "test_elicitation_create_asks_the_client_that_called",
            "test_elicitation_create_during_prompts_get_and_resources_read",
            "test_elicitation_create_with_an_address",
            "test_elicitation_create_in_a_modern_revision_repeats_the_request_with_the_state_as_it_was",
            "test_elicitation_create_without_an_end_is_given_up",
            "test_elicitation_create_to_a_client_that_cannot_answer_is_an_error",
            "test_elicitation_create_is_offered_in_the_words_of_the_revision",
            "test_everything_elicits",
            "test_everything_elicits_with_an_address",
        ),
    ),
    "tasks/* c>s": Row(
        (*NEWEST_LEGACY, MODERN),
        "by id",
        (
            "test_tasks_are_offered_to_no_server",
            "test_tasks_that_nobody_asked_for_are_a_malformed_answer",
            "test_everything_says_which_tool_needs_a_task",
            ENDS_HERE,
        ),
    ),
    "notifications/cancelled c>s": Row(
        ALL, "translated", ("test_cancelled_by_the_client_reaches_the_server", "test_everything_is_cancelled")
    ),
    # In the modern revision only to end a subscription, which servers of this SDK never do.
    "notifications/cancelled s>c": Row(LEGACY, "translated", ("test_cancelled_by_the_server_reaches_the_client",)),
    "notifications/progress c>s": Row(
        LEGACY, "mapped", ("test_progress_of_an_answer_reaches_the_server_if_the_client_was_asked_for_it",)
    ),
    "notifications/progress s>c": Row(
        ALL, "mapped", ("test_progress_of_a_call_reaches_the_client_that_called", "test_everything_reports_progress")
    ),
    "notifications/message s>c": Row(
        ALL,
        "fanned out",
        (
            "test_message_reaches_the_client_that_wants_its_level",
            "test_message_goes_to_nobody_who_has_not_asked",
            "test_message_is_wanted_request_by_request_in_a_modern_revision",
            "test_everything_logs",
        ),
    ),
    "notifications/tools/list_changed s>c": Row(
        ALL, "fanned out", ("test_list_changed_is_told_once_to_all_who_asked_for_the_list",)
    ),
    "notifications/prompts/list_changed s>c": Row(
        ALL, "fanned out", ("test_list_changed_is_told_once_to_all_who_asked_for_the_list",)
    ),
    "notifications/resources/list_changed s>c": Row(
        ALL,
        "fanned out",
        ("test_list_changed_is_told_once_to_all_who_asked_for_the_list", "test_everything_changes_its_resources"),
    ),
    "notifications/resources/updated s>c": Row(
        ALL, "fanned out", ("test_resources_updated_reaches_who_has_subscribed", "test_everything_updates_a_subscriber")
    ),
    "notifications/roots/list_changed c>s": Row(
        LEGACY, "per server", ("test_roots_list_changed_is_sent_where_it_was_promised",)
    ),
    "notifications/elicitation/complete s>c": Row(
        NEWEST_LEGACY, "by id", ("test_elicitation_complete_reaches_the_client_that_was_asked",)
    ),
    "notifications/subscriptions/acknowledged s>c": Row(
        (MODERN,), "ends here", ("test_subscriptions_acknowledged_ends_at_the_daemon",)
    ),
}
# What holds for all rows at once.
OVERALL = (
    "test_a_server_hears_only_what_its_revision_knows",
    "test_requests_carry_the_metadata_of_their_era",
    "test_everything_is_found_to_be_legacy_on_one_pipe",
)


def speaking(revisions: Iterable[str]) -> list[str]:
    """Return the names of the SDK's servers that speak one of these revisions."""
    return [name for name, revision in PINNED.items() if revision in revisions]


def servers(revisions: Iterable[str] = ALL) -> Callable[[Any], Any]:
    """Run a test with each of the SDK's servers that speak one of these revisions."""
    return pytest.mark.parametrize("server", speaking(revisions))


def servers_of(row: str) -> Callable[[Any], Any]:
    """Run a test with each of the SDK's servers that know a method."""
    return servers(ROWS[row].revisions)
