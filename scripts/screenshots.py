"""Pictures of the page: a chat in light, the cluster at work in dark, and a node that is away. See screenshots.sh."""

import pathlib
import shutil
import sys
import threading

from playwright.sync_api import sync_playwright

from cluster import Cluster

SIZE = {"width": 1280, "height": 880}
QUESTIONS = ["Write a class for a stack with push, pop and peek.", "Explain what a binary search does.",
             "Write a function that checks whether a number is prime."]
LOAD = ["def parse(text):", "import os\n", "class Queue:", "# Sorts a list of numbers.\n", "def read_lines(path):"]


def open_page(browser, lead, scheme, path=""):
    context = browser.new_context(viewport=SIZE, color_scheme=scheme, locale="en-GB", device_scale_factor=1.25)
    page = context.new_page()
    page.goto(lead.url + "/" + path)
    return page


def ask(page, text):
    field = page.get_by_role("textbox", name="Message", exact=True)
    field.fill(text)
    field.press("Enter")
    page.get_by_role("button", name="Send").wait_for()


def keep_busy(lead, ended):
    """Several clients who never pause."""
    def work(prompt):
        while not ended.is_set():
            try:
                lead.complete(prompt, max_tokens=400, temperature=0.9, seed=1)
            except Exception:  # while a node is away
                ended.wait(0.5)
    for prompt in LOAD:
        threading.Thread(target=work, args=(prompt,), daemon=True).start()


def main():
    target = pathlib.Path(sys.argv[1])
    ended = threading.Event()
    with Cluster() as cluster, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        nodes = cluster.nodes(3, "--threads", "1")
        lead = cluster.lead(nodes, "--parallel", 4, "--split", "2,4,3,3", "--threads", "1", "--kv-tokens", 16384).wait_ready()
        chat, dark, light = (open_page(browser, lead, *how) for how in (("light",), ("dark", "#/cluster"), ("light", "#/cluster")))
        keep_busy(lead, ended)
        for question in QUESTIONS:
            chat.get_by_role("button", name="New chat").click()
            ask(chat, question)
        chat.wait_for_timeout(62_000)
        chat.screenshot(path=target / "page-light.png")
        dark.screenshot(path=target / "page-dark.png")
        nodes[1].kill()
        light.locator(".reason", has_text="cannot connect").wait_for()
        light.wait_for_timeout(3000)
        light.screenshot(path=target / "page-node-down.png")
        ended.set()
        browser.close()


if __name__ == "__main__":
    main()
