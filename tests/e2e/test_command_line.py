"""The man page and the completions of the shells know every option of every command, and no other."""

import os
import re
import subprocess
import sys

import pexpect
import pytest

from cluster import KAIJU, ROOT

COMPLETIONS = ROOT / "completions"
MAN = ROOT / "docs" / "kaiju.1"


def told(*command, **fields):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True, **fields).stdout


@pytest.fixture(scope="module")
def commands():
    """The options of each command, as its --help has them."""
    names = re.findall(r"^  ([a-z]+) ", told(KAIJU, "--help"), re.MULTILINE)
    known = {}
    for name in names:
        found = re.findall(r"^  (?:-\w, )?(--[a-z-]+)|, (--[a-z-]+) [A-Z]", told(KAIJU, name, "--help"), re.MULTILINE)
        known[name] = {option for pair in found for option in pair if option}
    return known


def test_help_has_what_the_commands_take(commands):
    taken = set()
    for source in (ROOT / "src" / "cmd").glob("*.[ch]"):
        taken |= {f"--{name}" for name in re.findall(r'\{\s*"([a-z-]+)", (?:no|required)_argument', source.read_text())}
    assert len(taken) > 60 and taken == set().union(*commands.values())


def test_what_is_written_from_help_is_up_to_date():
    check = subprocess.run([sys.executable, ROOT / "scripts" / "command_line.py", KAIJU, "--check"], capture_output=True,
                           text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_man_page_has_every_option_and_no_other(commands):
    sections = re.split(r"^\.S[SH] ", MAN.read_text().replace("\\-", "-"), flags=re.MULTILINE)
    options = {section.partition("\n")[0]: set(re.findall(r"^(?:\\fB-\w\\fR, )?\\fB(--[a-z-]+)\\fR", section, re.MULTILINE))
               for section in sections}
    engine = options["OPTIONS OF THE ENGINE"]
    assert len(engine) > 20
    for name, known in commands.items():
        described = options[f"kaiju {name}"]
        if name in ("serve", "run", "bench"):
            described |= engine
        assert described | {"--help"} == known


def test_the_man_page_is_well_formed():
    subprocess.run(["mandoc", "-T", "lint", "-W", "warning", MAN], check=True)
    assert "kaiju serve" in told("mandoc", "-T", "utf8", MAN, env={**os.environ, "MANWIDTH": "80"}).replace("\b", "")


def bash(*words):
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kaiju; printf "%s\\n" "${COMPREPLY[@]}"'
    return set(told("bash", "-c", script, "bash", COMPLETIONS / "kaiju.bash", *words, cwd=ROOT).split())


def fish(line):
    lines = told("fish", "--no-config", "-c", f"source {COMPLETIONS / 'kaiju.fish'}; complete -C '{line}'", cwd=ROOT).splitlines()
    return {line.partition("\t")[0] for line in lines}


def test_bash_completes(commands):
    assert bash("kaiju", "") == {*commands, "--help", "--version"}
    for name, options in commands.items():
        assert bash("kaiju", name, "--") == options
    assert bash("kaiju", "serve", "--provider", "") == {"tcp", "verbs"}
    assert bash("kaiju", "synth", "--bits", "") == {"4", "8"}
    assert bash("kaiju", "node", "--cpu", "avx") == {"avx2", "avxvnni", "avx512"}
    assert bash("kaiju", "serve", "mod") == {"models"} and bash("kaiju", "serve", "READ") == set()
    assert bash("kaiju", "serve", "--tls-cert", "READ") == {"README.md"} == bash("kaiju", "keygen", "READ")
    assert bash("kaiju", "synth", "qwen3-coder-4") == {"qwen3-coder-480b"}
    assert bash("kaiju", "serve", "--ctx", "") == set()


def test_fish_completes(commands, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fish("kaiju ") == set(commands)
    for name, options in commands.items():
        assert {option for option in fish(f"kaiju {name} --") if option.startswith("--")} == options
    assert fish("kaiju serve --provider ") == {"tcp", "verbs"}
    assert fish("kaiju serve --tls-cert READ") == {"README.md"}
    assert fish("kaiju synth qwen3-coder-4") == {"qwen3-coder-480b"}


def test_zsh_completes(commands, tmp_path):
    text = (COMPLETIONS / "_kaiju").read_text()
    for name, options in commands.items():
        block = re.search(rf"^    {name}\)\n(.*?)^      ;;", text, re.MULTILINE | re.DOTALL)[1]
        assert set(re.findall(r"^        '\*?(--[a-z-]+)\[", block, re.MULTILINE)) == options
    shell = pexpect.spawn("zsh", ["-f"], cwd=str(ROOT), encoding="utf-8", timeout=20, dimensions=(50, 200),
                          env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8"})
    try:
        shell.sendline(f"PS1='ready> '; fpath=({COMPLETIONS} $fpath); autoload -U compinit; compinit -u -D; unsetopt zle_bracketed_paste")
        shell.expect("\rready> ")
        for typed, completed in [("kaiju to", "p "), ("kaiju plan --head", "-on-last"), ("kaiju serve --prov", "ider"),
                                 ("kaiju serve --provider v", "erbs"), ("kaiju synth qwen3-coder-4", "80b"),
                                 ("kaiju serve --tls-cert READ", "ME.md"), ("kaiju keygen READ", "ME.md")]:
            shell.send(typed + "\t")
            shell.expect_exact(completed)
            shell.send("\x15")
    finally:
        shell.close(force=True)
