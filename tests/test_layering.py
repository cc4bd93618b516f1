"""The plan of the house, checked: who may import whom, what is pure, who constructs, how long a file is."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
MAX_LINES = 350

MOVING = {"mover", "stream", "timers"}
LAYERS: dict[str, set[str]] = {
    # What comes before the event loop: the lock, and the guardian's start.
    "__main__": {"daemon", "downstream.place", "upstream.launch", "config", "logs"},
    "daemon": {"downstream", "broker", "upstream", "config", "logs", "guardian"} | MOVING,
    "downstream": {"broker", "protocol", "config", "logs", "events"} | MOVING,
    # Runs in the command line's process: the daemon imports nothing of it.
    "signin": {"upstream.credential", "upstream.vault", "upstream.http_reply", "protocol.challenge", "config"},
    "doctor": {"signin.report", "upstream.vault", "config"},  # likewise
    "broker": {"upstream", "protocol", "config"} | MOVING,
    "upstream": {"protocol", "config", "guardian", "events"} | MOVING,
    "mover": {"stream"},
    "stream": {"mover"},  # as a type
    **{name: set() for name in ("__init__", "protocol", "config", "timers", "logs", "events", "errors", "demo", "guardian")},
}  # fmt: skip
OPEN_TO_ALL = {"errors", "__version__"}
STAND_ALONE = {"__init__", "errors", "demo", "guardian"}

# Who reads files and expands variables; for the layers below, the configuration is types and their pure helpers.
CONFIG_AT_WORK = {"config.load", "config.expand", "config.command"}
CONFIG_TYPES = {"Launch"}

PURE = (
    "protocol/*", "protocol/shaping/*", "upstream/lifecycle.py", "downstream/cli/*",
    "broker/limits.py", "broker/listing.py", "broker/pace.py", "broker/policy.py", "broker/ranking.py", "broker/results.py",
    "broker/scopes.py",
    "config/redact.py", "config/diff.py", "config/model.py", "config/rules.py", "config/schema.py",
)  # fmt: skip
IMPURE = {"trio", "socket", "os", "time", "random", "logging", "structlog"}

CONSTRUCTED = {
    "Broker",
    "Control",
    "Crowd",
    "EraFile",
    "Guard",
    "Listener",
    "Mover",
    "Remotes",
    "ResultStore",
    "Shelf",
    "Surroundings",
    "Timers",
}

# The commands daemon (twice: at once, and after global options), demo-server and config.
CLIENT_COMMANDS = {
    "fast.py": "main", "cli/main.py": "run_daemon", "cli/more.py": "_demo_server", "cli/config.py": "_config",
    "cli/auth.py": "_through", "cli/doctor.py": "_doctor", "cli/secret.py": "_secret",
}  # fmt: skip


def imports(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every import below a node, wherever it stands, as (module, name); relative ones are resolved."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((each.name, "") for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else ()
                yield from ((".".join((*base, *([module] if module else []))), each.name) for each in names)


def modules(root: Path) -> Iterator[tuple[str, str, ast.Module, list[tuple[str, str]]]]:
    """Every module of a package: its path inside, its layer, its tree, its imports."""
    for file in sorted(root.rglob("*.py")):
        path, tree = file.relative_to(root), ast.parse(file.read_text(encoding="utf-8"))
        yield str(path), path.parts[0].removesuffix(".py"), tree, [*imports(tree, (root.name, *path.parts[:-1]))]


def inside(module: str, name: str) -> str:
    """What an import of `mcpd` or of something in it names, without the `mcpd`."""
    whole = f"{module}.{name}" if module == "mcpd" and name else module
    return whole.removeprefix("mcpd").removeprefix(".")


def layering(root: Path) -> Iterator[str]:
    for path, layer, _, found in modules(root):
        if layer not in LAYERS:
            yield f"{path} is in no layer"
            continue
        allowed = LAYERS[layer] | (set() if layer in STAND_ALONE else OPEN_TO_ALL | {layer})
        for module, name in found:
            if module.split(".")[0] not in ("mcpd", "mcpd_client"):
                continue
            there = "mcpd_client" if module.startswith("mcpd_client") else inside(module, name)
            if not {there, there.split(".")[0]} & allowed:
                yield f"{path} imports {there}"
            elif there in CONFIG_AT_WORK and layer not in ("__main__", "daemon", "config", "signin", "doctor") and name not in CONFIG_TYPES:
                yield f"{path} imports {there}.{name}"


def purity(root: Path) -> Iterator[str]:
    for path, _, _, found in modules(root):
        if any(Path(path).match(pattern) for pattern in PURE):
            yield from (f"{path} imports {module}" for module, _ in found if module.split(".")[0] in IMPURE)


def construction(root: Path) -> Iterator[str]:
    for path, layer, tree, _ in modules(root):
        for node in ast.walk(tree) if layer != "daemon" else ():
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in CONSTRUCTED:
                    yield f"{path} constructs {name}"


def client(root: Path) -> Iterator[str]:
    """The client imports nothing of the daemon, but for the commands that are the daemon, when they run."""
    for path, _, tree, found in modules(root):
        wanted = [module for module, _ in found if module.split(".")[0] == "mcpd"]
        function = CLIENT_COMMANDS.get(path)
        lazy = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
        in_function = [module for node in lazy for module, _ in imports(node, ()) if module.split(".")[0] == "mcpd"]
        for module in in_function:
            wanted.remove(module)
        yield from (f"{path} imports {module}" for module in wanted)


def length(root: Path) -> Iterator[str]:
    for file in sorted(root.rglob("*.py")):
        if (lines := len(file.read_text(encoding="utf-8").splitlines())) > MAX_LINES:
            yield f"{file.relative_to(root)} has {lines} lines"


def test_imports_run_one_way() -> None:
    assert [*layering(ROOT / "mcpd")] == []


def test_pure_modules_know_neither_time_nor_the_system() -> None:
    assert [*purity(ROOT / "mcpd")] == []


def test_only_the_composition_root_constructs() -> None:
    assert [*construction(ROOT / "mcpd")] == []


def test_the_client_imports_nothing_of_the_daemon() -> None:
    assert [*client(ROOT / "client/mcpd_client")] == []


def test_no_file_has_two_ideas() -> None:
    assert [*length(ROOT / "mcpd"), *length(ROOT / "client/mcpd_client")] == []


def test_what_is_checked_is_there() -> None:
    """A name that is nowhere would be checked for ever without a word."""
    root = ROOT / "mcpd"
    source = "".join(file.read_text(encoding="utf-8") for file in root.rglob("*.py"))

    assert [pattern for pattern in PURE if not [*root.glob(pattern)]] == []
    assert [name for name in CONSTRUCTED if f"class {name}" not in source] == []
    assert [path for path in CLIENT_COMMANDS if not (ROOT / "client/mcpd_client" / path).exists()] == []


def test_planted_violations_are_found(tmp_path: Path) -> None:
    planted = {
        "mcpd/protocol/frames.py": "def f():\n    import time.clock\nfrom ..upstream import process\n",
        "mcpd/upstream/lifecycle.py": "from os import path\nfrom mcpd.broker.broker import Broker\n",
        "mcpd/broker/broker.py": "from mcpd.config.load import load\nfrom mcpd import daemon\nMover()\n",
        "mcpd/downstream/door.py": "import mcpd.upstream.process\nimport mcpd_client\nfrom . import x\n",
        "mcpd/errors.py": "from mcpd.timers import Timers\n",
        "mcpd/__main__.py": "from mcpd.downstream.place import Place\nfrom mcpd.downstream.door import x\n",
        "mcpd/helper.py": "\n" * 351,
        "mcpd/daemon.py": "from mcpd.timers import Timers\nTimers()\n",
        "mcpd_client/sync.py": "def f():\n    from mcpd.errors import McpdError\n",
        "mcpd_client/cli/main.py": "import mcpd\ndef run_daemon():\n    from mcpd.__main__ import main\n",
    }
    for path, text in planted.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert [*layering(tmp_path / "mcpd")] == [
        "__main__.py imports downstream.door",
        "broker/broker.py imports config.load.load",
        "broker/broker.py imports daemon",
        "downstream/door.py imports upstream.process",
        "downstream/door.py imports mcpd_client",
        "errors.py imports timers",
        "helper.py is in no layer",
        "protocol/frames.py imports upstream",
        "upstream/lifecycle.py imports broker.broker",
    ]
    assert [*purity(tmp_path / "mcpd")] == [
        "protocol/frames.py imports time.clock",
        "upstream/lifecycle.py imports os",
    ]
    assert [*construction(tmp_path / "mcpd")] == ["broker/broker.py constructs Mover"]
    assert [*client(tmp_path / "mcpd_client")] == ["cli/main.py imports mcpd", "sync.py imports mcpd.errors"]
    assert [*length(tmp_path / "mcpd")] == ["helper.py has 351 lines"]
