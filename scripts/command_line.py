#!/usr/bin/env python3
"""Writes what says the command line once more: the options in docs/kaiju.1 and the completions of bash, zsh and fish.

    scripts/command_line.py BUILD/kaiju           writes docs/kaiju.1 and completions/
    scripts/command_line.py BUILD/kaiju --check   writes nothing, names the files that would change, exit code 1

All of it comes from what `kaiju --help` and `kaiju COMMAND --help` print. Of the man page only what stands between its
two marks is written; the rest is prose, kept by hand.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN, END = '.\\" Written by scripts/command_line.py, from here on', '.\\" down to here'
NOTICE = "# Written by scripts/command_line.py from what kaiju --help says."
OPTION = re.compile(r"^  (?P<names>-\S.*?)(?:\s{2,}(?P<text>\S.*))?$")
CONTINUED = re.compile(r"^ {16,}(?P<text>\S.*)$")
DIRECTORIES, FILES = ("DIR", "MODEL"), ("FILE", "PATH")


class Option:
    def __init__(self, name, short, value, text, heading):
        self.name, self.short, self.value, self.text, self.heading = name, short, value, text, heading

    def choices(self):
        """The words that the value is one of: "4|8", or a list at the beginning of the text."""
        if self.value and "|" in self.value:
            return self.value.split("|")
        listed = re.match(r"((?:[a-z0-9-]+, )*[a-z0-9-]+) or ([a-z0-9-]+)(?= \()", self.text or "")
        return [*listed[1].split(", "), listed[2]] if self.value == "NAME" and listed else []


class Command:
    def __init__(self, name, summary, manual):
        self.name, self.summary = name, summary
        self.usage, self.paragraphs, self.options, self.notes = [], [[]], [], []
        self.read(manual)

    def read(self, manual):
        """The usage, then paragraphs, then options under their headings, then notes."""
        options_seen, self.heading = False, None
        for line in manual.splitlines():
            found, continued = OPTION.match(line), CONTINUED.match(line)
            if line.startswith(("Usage: ", "       kaiju")):
                self.usage.append(line[7:].strip())
            elif found:
                options_seen = True
                self.take(found["names"], found["text"] or "")
            elif continued and continued["text"].startswith("(of --"):
                self.notes.append([continued["text"].strip("()")])
            elif continued and self.options:
                for option in self.options[-self.together:]:
                    option.text = f"{option.text} {continued['text']}".strip()
            elif not line:
                (self.notes if options_seen else self.paragraphs).append([])
            elif re.fullmatch(r"[A-Z][^.]*:", line):
                self.heading = line
            else:
                assert not line.startswith(" "), f"kaiju {self.name} --help: what is this? {line!r}"
                (self.notes if options_seen else self.paragraphs)[-1].append(line)
        self.paragraphs = [" ".join(lines) for lines in self.paragraphs if lines]
        self.notes = [" ".join(lines) for lines in self.notes if lines]

    def take(self, names, text):
        """"-p, --prompt TEXT" is one option, "--top-p X, --top-k N" are two with one text."""
        short, self.together = None, 0
        for part in names.split(", "):
            name, _, value = part.partition(" ")
            if not name.startswith("--"):
                short = name
                continue
            self.options.append(Option(name, short, value or None, text, self.heading))
            self.together += 1
            short = None

    def argument(self):
        """The kind of the last word that stands without an option: DIR, MODEL, FILE, …, or None."""
        kinds, of_an_option = [], False
        for word in self.usage[0].removesuffix("[options]").split()[2:]:
            if not of_an_option and word.strip("[]").isalpha():
                kinds.append(word.strip("[]"))
            of_an_option = word.lstrip("[").startswith("-")
        return kinds[-1] if kinds else None

    def shapes(self):
        """Words that may stand in its place: "SHAPE: a, b or c,"."""
        listed = re.search(r"SHAPE: (.*?) or ([\w-]+)", " ".join(self.paragraphs))
        return [*listed[1].split(", "), listed[2]] if listed else []


def read_commands(kaiju):
    def told(*arguments):
        return subprocess.run([kaiju, *arguments, "--help"], check=True, capture_output=True, text=True).stdout

    listed = re.findall(r"^  ([a-z]+) +(\S.*)$", told(), re.MULTILINE)
    return [Command(name, summary, told(name)) for name, summary in listed]


# The man page.

def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def marked(text):
    """Prose, with what one types in bold."""
    return re.sub(r"(?<!\w)(\\-\\-[a-z\\-]+[a-z]|kaiju [a-z]+(?= \())", r"\\fB\1\\fR", escaped(text))


def man_option(option):
    value = f" \\fI{escaped(option.value)}\\fR" if option.value else ""
    short = f"\\fB{escaped(option.short)}\\fR, " if option.short else ""
    return f".TP\n{short}\\fB{escaped(option.name)}\\fR{value}\n{marked(option.text)}"


def man_options(options):
    """Each option, under its heading."""
    lines, heading = [], None
    for option in options:
        if option.heading != heading:
            heading = option.heading
            lines.append(f".PP\n\\fI{escaped(heading)}\\fR")
        lines.append(man_option(option))
    return lines


def of_the_engine(commands):
    """Options that several commands have in the same words: they are said once."""
    first, *others = [command for command in commands if command.name in ("serve", "run", "bench")]
    said = [{(option.name, option.text) for option in command.options} for command in others]
    same_names = {option.name for option in others[0].options} & {option.name for option in others[1].options}
    return [option for option in first.options if option.name in same_names and option.name != "--help"
            and any((option.name, option.text) in options for options in said)]


def man_section(commands):
    engine = of_the_engine(commands)
    engine_names = {option.name for option in engine}
    lines = [".SH COMMANDS"]
    for command in commands:
        lines += [f".SS kaiju {command.name}"]
        lines += ["\n.br\n".join(f"\\fB{escaped(usage)}\\fR" for usage in command.usage)]
        lines += [f".PP\n{marked(paragraph)}" for paragraph in command.paragraphs]
        has_engine = engine_names <= {option.name for option in command.options}
        lines += man_options(option for option in command.options
                             if option.name != "--help" and not (has_engine and option.name in engine_names))
        if has_engine:
            lines.append(".PP\nFurther options are those of the engine, below.")
        lines += [f".PP\n{marked(note)}" for note in command.notes]
    lines += [".SH OPTIONS OF THE ENGINE", "\\fBkaiju serve\\fR, \\fBkaiju run\\fR and \\fBkaiju bench\\fR have these:"]
    lines += [man_option(option) for option in engine]
    lines += [".PP\nEvery command has \\fB\\-\\-help\\fR; \\fBkaiju \\-\\-help\\fR lists the commands, "
              "\\fBkaiju \\-\\-version\\fR prints the version."]
    return "\n".join(lines) + "\n"


def man_page(commands, present):
    before, rest = present.split(BEGIN + "\n")
    after = rest.split(END + "\n")[1]
    return f"{before}{BEGIN}\n{man_section(commands)}{END}\n{after}"


# Completions.

def words(items):
    return " ".join(items)


def bash(commands):
    lines = [NOTICE, "", "_kaiju() {",
             "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} options=",
             "  COMPREPLY=()",
             "  if [ \"$COMP_CWORD\" -eq 1 ]; then",
             f"    COMPREPLY=($(compgen -W \"{words(command.name for command in commands)} --help --version\" -- \"$word\"))",
             "    return", "  fi", "  case \"$command $before\" in"]
    by_action = {}
    for command in commands:
        for option in command.options:
            if option.value:
                everywhere = len({bash_value(other) for each in commands for other in each.options
                                  if other.name == option.name}) == 1
                patterns = by_action.setdefault(bash_value(option), {})
                for name in filter(None, (option.name, option.short)):
                    patterns[f"{'*' if everywhere else command.name}\\ {name}"] = True
    for action, patterns in by_action.items():
        lines += [f"    {' | '.join(patterns)})", *([f"      {action}"] if action != "return" else []), "      return", "      ;;"]
    lines += ["  esac", "  case \"$command\" in"]
    for command in commands:
        names = words(option.name for option in command.options)
        lines += [f"    {command.name})", f"      options=\"{names}\"", "      ;;"]
    lines += ["  esac", "  if [[ $word == -* ]]; then", "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))", "    return",
              "  fi", "  case \"$command\" in"]
    for command in commands:
        action = bash_kind(command.argument(), command.shapes())
        if action:
            lines += [f"    {command.name}) {action} ;;"]
    lines += ["  esac", "}", "", "complete -o filenames -F _kaiju kaiju"]
    return "\n".join(lines) + "\n"


def bash_kind(kind, others=()):
    """What completes an argument of this kind; nothing for numbers and the like."""
    more = f'compgen -W "{words(others)}" -- "$word"; ' if others else ""
    for kinds, flag in ((DIRECTORIES, "d"), (FILES, "f")):
        if kind in kinds:
            return f'mapfile -t COMPREPLY < <({more}compgen -{flag} -- "$word")'
    return None


def bash_value(option):
    if option.choices():
        return f'COMPREPLY=($(compgen -W "{words(option.choices())}" -- "$word"))'
    return bash_kind(option.value) or ("return" if option.value else None)


def zsh_quoted(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh_kind(kind):
    return "_directories" if kind in DIRECTORIES else "_files" if kind in FILES else " "


def zsh(commands):
    lines = ["#compdef kaiju", NOTICE, "", "_kaiju() {", "  local -a commands", "  commands=("]
    lines += [f"    '{command.name}:{zsh_quoted(command.summary)}'" for command in commands]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands", "    _values option --help --version",
              "    return", "  fi", "  local command=$words[2]", "  shift words", "  (( CURRENT-- ))", "  case $command in"]
    for command in commands:
        lines += [f"    {command.name})", "      _arguments \\"]
        for option in command.options:
            value = ""
            if option.value:
                action = f"({words(option.choices())})" if option.choices() else zsh_kind(option.value)
                value = f":{zsh_quoted(option.value)}:{action}"
            repeated = "*" if f"{option.name} " in command.usage[0] and "]..." in command.usage[0] else ""
            for name in filter(None, (option.name, option.short)):
                lines.append(f"        '{repeated}{name}[{zsh_quoted(option.text)}]{value}' \\")
        argument = command.argument()
        if command.shapes():
            lines.append(f"        '1:SHAPE or DIR:_alternative \"shapes:SHAPE:({words(command.shapes())})\" directories:DIR:_directories' \\")
        lines += [f"        '*:{argument}:{zsh_kind(argument)}'" if argument else "        '*: : '", "      ;;"]
    lines += ["  esac", "}", "", "_kaiju \"$@\""]
    return "\n".join(lines) + "\n"


def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands):
    lines = [NOTICE, "", "complete -c kaiju -f",
             "complete -c kaiju -n __fish_use_subcommand -l help -d 'the commands'",
             "complete -c kaiju -n __fish_use_subcommand -l version -d 'the version'"]
    lines += [f"complete -c kaiju -n __fish_use_subcommand -a {command.name} -d {fish_quoted(command.summary)}"
              for command in commands]
    for command in commands:
        condition = f"complete -c kaiju -n '__fish_seen_subcommand_from {command.name}'"
        lines.append("")
        for option in command.options:
            line = f"{condition} -l {option.name[2:]}"
            if option.short:
                line += f" -s {option.short[1:]}"
            if option.value:
                line += fish_value(option)
            lines.append(f"{line} -d {fish_quoted(option.text)}")
        if command.shapes():
            lines.append(f"{condition} -a '{words(command.shapes())}'")
        if command.argument() in DIRECTORIES:
            lines.append(f"{condition} -a '(__fish_complete_directories)'")
        elif command.argument() in FILES:
            lines.append(f"{condition} -F")
    return "\n".join(lines) + "\n"


def fish_value(option):
    if option.choices():
        return f" -x -a '{words(option.choices())}'"
    if option.value in DIRECTORIES:
        return " -x -a '(__fish_complete_directories)'"
    return " -r -F" if option.value in FILES else " -x"


def main(kaiju, check=False):
    commands = read_commands(kaiju)
    man = ROOT / "docs" / "kaiju.1"
    contents = {man: man_page(commands, man.read_text())}
    for name, write in (("kaiju.bash", bash), ("_kaiju", zsh), ("kaiju.fish", fish)):
        contents[ROOT / "completions" / name] = write(commands)
    stale = [path for path, text in contents.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what kaiju --help says: run scripts/command_line.py {kaiju}")
        else:
            path.write_text(contents[path])
    return 1 if check and stale else 0


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or sys.argv[2:] not in ([], ["--check"]):
        sys.exit(f"usage: {sys.argv[0]} BUILD/kaiju [--check]")
    sys.exit(main(*sys.argv[1:2], check=len(sys.argv) == 3))
