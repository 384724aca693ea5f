"""kaiju bench: what it accepts, and that what it prints is whole and agrees with itself. Never how fast it is."""

import json
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from cluster import KAIJU, MINI

QUICK = ["--tokens", "3", "--rounds", "2"]


def bench(*arguments):
    return subprocess.run([KAIJU, "bench", *arguments], capture_output=True, text=True)


def measured(*arguments):
    outcome = bench(*QUICK, "--json", *arguments)
    assert outcome.returncode == 0, outcome.stderr
    return json.loads(outcome.stdout)


def test_every_combination_of_the_lists_is_measured():
    report = measured("--prompt-tokens", "5,70", "--streams", "1,3", "--contexts", "9,130")
    assert [item["prompt_tokens"] for item in report["prefill"]] == [5, 70]
    assert [(item["streams"], item["context"]) for item in report["decode"]] == [(1, 9), (1, 130), (3, 9), (3, 130)]
    for item in report["prefill"] + report["decode"]:
        assert 0 < item["least"] <= item["tokens_per_second"] <= item["most"]
    assert report["rounds"] == 2
    assert report["engine"].startswith("cpu ")
    assert report["machine"]["cpu"] and report["machine"]["cpus"] >= 1
    assert report["ready_seconds"] > 0


def test_bytes_of_a_token_are_its_share_of_the_weights_and_its_own_context():
    config = json.loads((MINI / "config.json").read_text())
    experts, chosen = config["num_experts"], config["num_experts_per_tok"]
    report = measured("--prompt-tokens", "10", "--streams", "1,4", "--contexts", "64")
    alone, four = report["decode"]
    assert alone["distinct_experts"] == pytest.approx(chosen)
    assert four["distinct_experts"] == pytest.approx(experts * (1 - (1 - chosen / experts) ** 4))
    # A step of four reads more than a step of one, but not four times as much.
    assert alone["weight_bytes_per_token"] < 4 * four["weight_bytes_per_token"] < 4 * alone["weight_bytes_per_token"]
    # Keys and values of 16 bits, of every layer, of about 64 positions.
    position = 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
    assert 64 * position < alone["kv_bytes_per_token"] < 128 * position
    for item in report["decode"]:
        assert item["tokens_per_second_each"] == pytest.approx(item["tokens_per_second"] / item["streams"])
        assert item["bytes_per_token"] == pytest.approx(item["weight_bytes_per_token"] + item["kv_bytes_per_token"])
        assert item["bytes_per_second"] == pytest.approx(item["bytes_per_token"] * item["tokens_per_second"])
        share = item["bytes_per_second"] / report["read_bytes_per_second"]
        assert item["share_of_read_speed"] == pytest.approx(share)
    before, after = report["read_bytes_per_second_before"], report["read_bytes_per_second_after"]
    assert report["read_bytes_per_second"] == pytest.approx((before + after) / 2)


def test_no_stream_runs_ahead_of_the_others_with_drafts():
    # kaiju-mini repeats itself soon: drafts would take one stream to the end of the context before all are done.
    lists = ["--prompt-tokens", "1", "--streams", "4", "--contexts", "512"]
    outcome = bench("--tokens", "32", "--rounds", "5", "--json", *lists)
    assert outcome.returncode == 0, outcome.stderr
    assert json.loads(outcome.stdout)["decode"][0]["tokens_per_second"] > 0


def test_the_peak_leaves_out_the_buffer_of_the_read_speed():
    assert 10e6 < measured("--prompt-tokens", "10")["peak_memory"] < 1e9


def test_without_lists_one_prompt_and_one_stream_after_it_are_measured():
    report = measured("--prompt-tokens", "7")
    assert len(report["prefill"]) == 1
    assert [(item["streams"], item["context"]) for item in report["decode"]] == [(1, 7)]


def test_text_has_a_line_for_every_measurement():
    outcome = bench(*QUICK, "--prompt-tokens", "5,6", "--streams", "1,2")
    assert outcome.returncode == 0, outcome.stderr
    rows = [line.split() for line in outcome.stdout.splitlines()]
    assert [row[0] for row in rows if len(row) == 3 and row[0].isdigit()] == ["5", "6"]
    assert [row[:2] for row in rows if "%" in row and row[0].isdigit()] == [["1", "5"], ["2", "5"]]


@pytest.mark.parametrize("option", ["--prompt-tokens", "--streams", "--contexts"])
@pytest.mark.parametrize("value", ["", ",", "1,", ",1", "1,,2", "0", "1,0", "-1", "1 2", "4x", "1e3", ",".join("1" * 17)])
def test_malformed_lists_are_refused(option, value):
    outcome = bench(option, value)
    assert outcome.returncode == 2
    assert option in outcome.stderr
    assert outcome.stdout == ""


def test_more_streams_than_places_are_refused():
    outcome = bench("--streams", "1,4", "--parallel", "2")
    assert outcome.returncode == 1
    assert "--parallel 4" in outcome.stderr


def test_what_does_not_fit_the_context_is_refused():
    outcome = bench("--prompt-tokens", "32", "--tokens", "200", "--ctx", "64", "--rounds", "1")
    assert outcome.returncode == 1
    assert "do not fit the context of 64" in outcome.stderr


def test_a_context_beyond_the_model_is_refused():
    outcome = bench("--contexts", "100000")
    assert outcome.returncode == 1
    assert "the model is made for at most" in outcome.stderr


def test_the_picture_of_speed_over_context_has_its_figures(tmp_path):
    script = pathlib.Path(__file__).parents[2] / "bench" / "context.py"
    picture = tmp_path / "images" / "context.svg"
    command = [sys.executable, script, KAIJU, MINI, "--contexts", "100,1024,30", "--out", picture, *QUICK]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    rows = [line.split(" | ") for line in outcome.stdout.splitlines()[4:]]
    assert [row[0] for row in rows] == ["| 30", "| 100", "| 1024"]
    root = xml.etree.ElementTree.parse(picture).getroot()
    assert len([element for element in root if element.get("class") == "dot"]) == 3
    texts = [element.text for element in root]
    for written in ["30", "100", "1k"] + [row[1] for row in rows]:
        assert written in texts


def test_a_measurement_that_fails_leaves_no_picture(tmp_path):
    script = pathlib.Path(__file__).parents[2] / "bench" / "context.py"
    picture = tmp_path / "context.svg"
    outcome = subprocess.run([sys.executable, script, KAIJU, MINI, "--contexts", "100000", "--out", picture],
                             capture_output=True, text=True)
    assert outcome.returncode == 1
    assert "kaiju bench:" in outcome.stderr
    assert not picture.exists()
