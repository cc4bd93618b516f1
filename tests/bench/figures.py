"""What is measured, beside what, and how much it may be.

A series is a list of samples with a name such as `call_p50_1.mcpd`; a figure is the median of one
series, mostly beside the median of another that was taken in turn with it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Samples = Mapping[str, Sequence[float]]

COLUMNS = "{:<21} {:>13}  {:<27} {:>7}  {:>9}  {}"


@dataclass(frozen=True)
class Figure:
    """One line of the report.

    Args:
        name: what `--only` calls it.
        group: the measurement that yields its samples; `--only` takes this, too.
        unit: of both medians.
        series: whose median it is.
        beside: the series of the yardstick.
        yardstick: what the yardstick is, in a word or two.
        at_most: the ratio to the yardstick that it must not exceed.
        at_least: the ratio to the yardstick that it must reach.
        below: what it must stay under by itself.
    """

    name: str
    group: str
    unit: str
    series: str
    beside: str | None = None
    yardstick: str = ""
    at_most: float | None = None
    at_least: float | None = None
    below: float | None = None

    @property
    def target(self) -> str:
        """The target in words; empty for what is reported as information."""
        if self.below is not None:
            return f"< {self.below:g} {self.unit}"
        if self.at_least is not None:
            return f"≥ {self.at_least:g}x"
        return "" if self.at_most is None else f"≤ {self.at_most:g}x"


@dataclass(frozen=True)
class Reading:
    """A figure with the medians that were found; None where there is no sample."""

    figure: Figure
    value: float | None
    beside: float | None

    @property
    def ratio(self) -> float | None:
        """How many times the yardstick it is."""
        return self.value / self.beside if self.value is not None and self.beside else None

    @property
    def verdict(self) -> str:
        """`ok`, `OVER`, `MISSING` (it was to be measured and was not), or nothing where there is no target."""
        figure = self.figure
        if self.value is None or (figure.beside is not None and self.beside is None):
            return "MISSING"
        if not figure.target:
            return ""
        return "ok" if self._holds() else "OVER"

    def _holds(self) -> bool:
        figure, ratio = self.figure, self.ratio
        if figure.below is not None:
            return self.value is not None and self.value < figure.below
        if ratio is None:
            return False
        return (figure.at_most is None or ratio <= figure.at_most) and (
            figure.at_least is None or ratio >= figure.at_least
        )

    @property
    def line(self) -> str:
        """The reading as a row of the table."""
        figure, ratio = self.figure, self.ratio
        beside = "" if figure.beside is None else f"{figure.yardstick} {_number(self.beside)}"
        return COLUMNS.format(
            figure.name,
            f"{_number(self.value)} {figure.unit}",
            beside,
            "" if ratio is None else f"{ratio:.2f}x",
            figure.target,
            self.verdict,
        ).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 or value == int(value) else f"{value:,.1f}"


def read(figure: Figure, samples: Samples) -> Reading:
    """Return the medians for one figure."""

    def median(series: str | None) -> float | None:
        found = samples.get(series or "")
        return statistics.median(found) if found else None

    return Reading(figure, median(figure.series), median(figure.beside))


def _to_prototype(name: str, group: str, unit: str, **limit: float) -> Figure:
    return Figure(name, group, unit, f"{name}.mcpd", f"{name}.prototype", "prototype", **limit)


def _to_python(name: str, group: str) -> Figure:
    return Figure(name, group, "ms", f"{name}.mcpd", f"{group}.python", "bare python", at_most=2.0)


def _to_httpx2(name: str, unit: str, **limit: float) -> Figure:
    return Figure(name, "remote", unit, f"{name}.mcpd", f"{name}.httpx2", "bare httpx2", **limit)


def _flat(name: str, group: str, series: str, beside: str, yardstick: str) -> Figure:
    return Figure(name, group, "us", series, beside, yardstick, at_most=1.5)


FIGURES = (
    _to_prototype("call_p50_1", "calls", "us", at_most=1.5),
    _to_prototype("calls_per_s_64", "calls", "/s", at_least=0.4),
    _to_prototype("call_cpu_1", "calls", "us", at_most=2.5),
    _to_prototype("call_cpu_64", "calls", "us", at_most=2.5),
    _to_prototype("call_p50_64", "calls", "us"),
    _flat("flat_clients", "calls", "call_cpu_64.mcpd", "call_cpu_1.mcpd", "with 1 client"),
    _to_prototype("memory_idle", "calls", "MiB", below=35.0),
    _to_prototype("memory_64_clients", "calls", "MiB", below=35.0),
    _to_python("cli_call", "cli"),
    _to_python("cli_call_args", "cli"),
    _to_python("cli_tools", "cli"),
    Figure("cli_prototype", "cli", "ms", "cli_call.prototype", "cli.python", "bare python"),
    Figure("cli_modules", "cli", "modules", "modules.mcpd", "modules.python", "bare python"),
    _to_prototype("first_answer", "cold", "ms", at_most=1.5),
    Figure("first_by_autostart", "cold", "ms", "autostart.mcpd", "first_answer.prototype", "prototype"),
    _to_prototype("ten_servers_cold", "ten", "ms", at_most=1.3),
    _to_prototype("ten_servers_started", "ten", "ms"),
    _to_python("ten_servers_warm", "ten"),
    _to_prototype("memory_ten_servers", "ten", "MiB", below=35.0),
    _to_prototype("blob_time", "blob", "ms", at_most=2.0),
    _to_prototype("blob_growth", "blob", "MiB", below=30.0),
    Figure("blob_default_view", "blob", "ms", "blob_view.mcpd", "blob_time.prototype", "whole, prototype"),
    _flat("flat_servers_1", "servers", "cpu_1.fifty_servers", "cpu_1.one_server", "1 server"),
    _flat("flat_servers_64", "servers", "cpu_64.fifty_servers", "cpu_64.one_server", "1 server"),
    _flat("flat_servers_cli", "servers", "cpu_cli.fifty_servers", "cpu_cli.one_server", "1 server"),
    _flat("flat_tools_1", "tools", "cpu_1.thousand_tools", "cpu_1.ten_tools", "10 tools"),
    _flat("flat_tools_64", "tools", "cpu_64.thousand_tools", "cpu_64.ten_tools", "10 tools"),
    _flat("flat_tools_cli", "tools", "cpu_cli.thousand_tools", "cpu_cli.ten_tools", "10 tools"),
    _flat("flat_catalog_1", "tools", "cpu_1.thousand_tools", "cpu_1.not_listed", "catalog not loaded"),
    _flat("flat_catalog_64", "tools", "cpu_64.thousand_tools", "cpu_64.not_listed", "catalog not loaded"),
    Figure("search", "search", "ms", "search.mcpd", below=10.0),
    Figure("search_first", "search", "ms", "search_first.mcpd", below=50.0),
    Figure("list_change_cpu", "changes", "ms", "list_change_cpu.mcpd", below=10.0),
    Figure("list_change_walks", "changes", "walks", "list_change_walks.mcpd", below=1.001),
    Figure("list_change_told", "changes", "times", "list_change_told.mcpd", below=1.001),
    _to_prototype("chatter_p50", "chatter", "us", at_most=1.5),
    _to_prototype("chatter_cpu", "chatter", "us", at_most=2.5),
    Figure("spawn", "guardian", "ms", "spawn.mcpd", "spawn.popen", "bare Popen"),
    Figure("spawn_extra", "guardian", "ms", "spawn_extra.mcpd", below=3.0),
    Figure("memory_guardian", "guardian", "MiB", "memory_guardian.mcpd", below=12.0),
    Figure("idle_cpu", "guardian", "%", "idle_cpu.mcpd", below=0.5),
    Figure("polite_p99", "crowd", "ms", "polite_p99.crowded", "polite_p99.alone", "alone", below=25.0),
    Figure("loud_rate", "crowd", "MB/s", "loud_rate.mcpd"),
    Figure("memory_crowded", "crowd", "MiB", "memory_crowded.mcpd", below=160.0),
    Figure("bridge_call", "bridge", "us", "bridge_call.bridge", "bridge_call.socket", "on the socket"),
    Figure("bridge_extra", "bridge", "us", "bridge_extra.mcpd", below=500.0),
    Figure("memory_bridge", "bridge", "MiB", "memory_bridge.mcpd", below=12.0),
    Figure(
        "bridge_initialize",
        "bridge_first",
        "ms",
        "bridge_initialize.mcpd",
        "bridge_first.python",
        "bare python",
        below=100.0,
    ),
    Figure(
        "bridge_tools", "bridge_first", "ms", "bridge_tools.mcpd", "bridge_first.python", "bare python", below=100.0
    ),
    Figure("bridge_list_30", "bridge_many", "ms", "bridge_list_30.mcpd"),
    Figure("bridge_list_30_first", "bridge_many", "ms", "bridge_list_30_first.mcpd"),
    _to_httpx2("remote_call", "us", at_most=1.3),
    _to_httpx2("remote_stream", "us", at_most=1.3),
    _to_httpx2("remote_legacy", "us", at_most=1.3),
    _to_httpx2("remote_call_cpu", "us"),
    _to_httpx2("remote_stream_cpu", "us"),
    _to_httpx2("remote_legacy_cpu", "us"),
    _to_httpx2("remote_per_s_64", "/s"),
    # One connection for each call in flight, and one for the stream of a session.
    _to_httpx2("remote_pool_64", "TCP", below=66.0),
    Figure("memory_remote", "remote", "MiB", "memory_remote.mcpd", below=15.0),
)
