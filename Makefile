# Two commands do everything on a fresh Debian machine: `make demo` and `make test`.
# The build itself is CMake's (CMakeLists.txt); this file only gives its steps short names.

BUILD ?= build
CMAKE_FLAGS ?= -DKAIJU_TESTS=OFF
PREFIX ?= /usr/local

.PHONY: all dependencies demo test install format tidy asan fuzz bench bench-context bench-grammar bench-peers bench-pipeline clean

all: dependencies
	cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS)
	cmake --build $(BUILD)

# Debian packages that are missing are installed (as root, or through sudo).
dependencies:
	scripts/dependencies.sh build

# A two-node pipeline on this machine with the shipped model; answers a prompt and serves until Ctrl-C.
demo: dependencies
	cmake -S . -B $(BUILD) -G Ninja $(CMAKE_FLAGS) >/dev/null
	cmake --build $(BUILD) --target kaiju
	scripts/demo.sh $(BUILD)/kaiju

# Everything that CI checks: lint, unit tests, sanitizers, aarch64 under emulation, oracles, end to end, fuzzing.
test:
	tests/run.sh

install: all
	cmake --install $(BUILD) --prefix $(PREFIX)

format:
	git ls-files '*.c' '*.h' | xargs clang-format -i

tidy:
	tests/run.sh lint

# The unit tests under AddressSanitizer and UndefinedBehaviorSanitizer.
asan:
	tests/run.sh asan

# Ten minutes of every fuzz target.
fuzz:
	KAIJU_FUZZ_SECONDS=600 tests/run.sh fuzz

# The speed tables of docs/performance.md.
bench: all
	bench/table.sh $(BUILD)/kaiju

# The picture of decode speed over the length of the context, docs/images/context.svg.
bench-context: all
	[ -f $(BUILD)/bench/30b-8/config.json ] || $(BUILD)/kaiju synth qwen3-coder-30b $(BUILD)/bench/30b-8 --layers 8
	bench/context.py $(BUILD)/kaiju $(BUILD)/bench/30b-8

# What the mask of a step costs under constrained output, for grammars, schemas and tool calls.
bench-grammar: all
	bench/grammar.sh $(BUILD)

# Kaiju, llama.cpp and mlx-lm on the same weights, in turn; PEERS are options of bench/peers/run.py. Started again, it
# goes on where it was.
bench-peers: all
	scripts/dependencies.sh peers
	bench/peers/setup.sh $(BUILD)/peers
	$(BUILD)/peers/venv/bin/python bench/peers/run.py --kaiju $(BUILD)/kaiju --directory $(BUILD)/peers $(PEERS)

# Two nodes against one: many streams, a long prompt, a chat's second turn, drafts, and 64 clients for ten minutes;
# PIPELINE are options of bench/pipeline.py.
bench-pipeline: all
	bench/pipeline.py $(BUILD)/kaiju all --thirty $(BUILD)/bench/30b-8 $(PIPELINE)

clean:
	rm -rf $(BUILD)
