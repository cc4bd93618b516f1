"""What is built and installed: names, the script, one version everywhere, and a README that tells the truth."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import mcpd
import mcpd_client
from mcpd_client.cli.main import COMMANDS, GROUPS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
README = (ROOT / "README.md").read_text()


def test_the_distribution_does_not_take_the_name_of_another_project() -> None:
    assert PROJECT["project"]["name"] == "mcpd-broker"


def test_the_script_is_one_that_an_installer_points_at_its_python() -> None:
    ((source, name),) = WHEEL["shared-scripts"].items()
    script = ROOT / source

    assert (source, name) == ("client/scripts/mcpd", "mcpd")
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!python\n")


def test_both_packages_are_built_and_typed() -> None:
    assert WHEEL["packages"] == ["mcpd", "client/mcpd_client"]
    assert [package for package in WHEEL["packages"] if not (ROOT / package / "py.typed").exists()] == []


def test_there_is_one_version() -> None:
    assert PROJECT["project"]["version"] == mcpd.__version__ == mcpd_client.__version__


def test_the_command_says_the_version(tmp_path: Path) -> None:
    env = {"PYTHONPATH": f"{ROOT}/client", "HOME": str(tmp_path), "MCPD_SOCKET": str(tmp_path / "s")}

    done = subprocess.run(
        [sys.executable, ROOT / "client/scripts/mcpd", "version"], env=env, capture_output=True, text=True, check=True
    )

    assert (done.stdout, done.stderr) == (f"mcpd {mcpd.__version__}\n", "")


def test_every_command_of_the_readme_exists() -> None:
    typed = set(re.findall(r"(?:^\$ |\| |`|bin/)mcpd ([a-z][a-z-]*)", README, re.MULTILINE))

    assert len(typed) > 5
    assert sorted(typed - COMMANDS.keys()) == []


def test_the_readme_names_every_command() -> None:
    section = README.partition("\n## Commands\n")[2].partition("\n## ")[0]

    assert [name for name in COMMANDS if name != "demo-server" and not re.search(rf"\b{name}\b", section)] == []


def test_every_command_is_in_one_group_of_the_help() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
