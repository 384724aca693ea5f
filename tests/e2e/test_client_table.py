"""The table in docs/clients.md says what the tests show: for each client its version and the features that a test uses."""

import importlib
import importlib.metadata
import json
import pathlib
import re

import pytest

import npm_clients
from cluster import ROOT

HERE = pathlib.Path(__file__).parent
PYTHON, NPM = "requirements", "package.json"
CLIENTS = {  # as the table names them: where they come from, and their packages
    "openai (Python)": (PYTHON, ["openai"]),
    "openai (JavaScript)": (NPM, ["openai"]),
    "anthropic (Python)": (PYTHON, ["anthropic"]),
    "@anthropic-ai/sdk": (NPM, ["@anthropic-ai/sdk"]),
    "langchain-openai": (PYTHON, ["langchain-openai"]),
    "ai, @ai-sdk/openai-compatible": (NPM, ["ai", "@ai-sdk/openai-compatible"]),
    "qwen-code": (NPM, ["@qwen-code/qwen-code"]),
    "Codex": (NPM, ["@openai/codex"]),
    "Claude Code": (NPM, ["@anthropic-ai/claude-code"]),
    "opencode": (NPM, ["opencode-ai"]),
}


def pinned(source):
    if source == PYTHON:
        return dict(line.split("==") for line in (ROOT / "tests" / "requirements.txt").read_text().split())
    return json.loads((npm_clients.SCRIPTS / "package.json").read_text())["dependencies"]


@pytest.fixture(scope="module")
def table():
    """{client: (version, {feature…})}"""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in (ROOT / "docs" / "clients.md").read_text().splitlines() if line.startswith("|")]
    header, _, *rows = rows
    assert header[:2] == ["client", "version"] and all(len(row) == len(header) for row in rows)
    assert {cell for row in rows for cell in row[2:]} <= {"✓", ""}
    return {row[0]: (row[1], {feature for feature, cell in zip(header[2:], row[2:]) if cell}) for row in rows}


def test_versions_are_those_that_are_pinned(table):
    assert set(table) == set(CLIENTS)
    for client, (source, packages) in CLIENTS.items():
        assert table[client][0] == ", ".join(pinned(source)[package] for package in packages), client


def test_versions_are_those_that_are_installed():
    for source, packages in CLIENTS.values():
        for package in packages if source == PYTHON else []:
            assert importlib.metadata.version(package) == pinned(PYTHON)[package]
    locked = json.loads((npm_clients.SCRIPTS / "package-lock.json").read_text())["packages"]
    assert locked[""]["dependencies"] == pinned(NPM)
    for place, entry in locked.items():
        manifest = npm_clients.INSTALLED / place / "package.json"
        if place and (manifest.exists() or not entry.get("optional")):
            assert json.loads(manifest.read_text())["version"] == entry["version"], place


def test_the_lock_file_names_no_host():
    assert "resolved" not in (npm_clients.SCRIPTS / "package-lock.json").read_text()


def marks_of(function):
    """Those of a test, and of each of its parameters."""
    for mark in getattr(function, "pytestmark", []):
        yield mark
        if mark.name == "parametrize":
            for parameter in mark.args[1]:
                yield from getattr(parameter, "marks", [])


def test_features_are_those_that_tests_use(table):
    shown = {}
    for path in sorted(HERE.glob("test_*.py")):
        if "mark.client(" not in path.read_text():
            continue
        assert not re.search(r"(pytest|mark)\.(skip|xfail|importorskip)", path.read_text()), path.name
        module = importlib.import_module(path.stem)
        for name, function in vars(module).items():
            for mark in marks_of(function) if name.startswith("test_") else []:
                if mark.name == "client":
                    client, feature = mark.args
                    shown.setdefault(client, set()).add(feature)
    assert shown == {client: features for client, (_, features) in table.items()}
