"""The page in a browser: chats that stream, branch and stay, and the cluster as it works."""

import json
import pathlib
import re
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

import scripted
from cluster import Cluster, eventually

CODE = "def double(x):\n    return 2 * x\n"
MARKDOWN = f"""# Doubling

| x | 2x |
| --- | ---: |
| 1 | 2 |

- [x] one **bold**
- two `code`

7. seventh

```python
{CODE}```

[a link](https://kaiju.example/) and a picture ![of a wave](https://kaiju.example/wave.png)
"""
ATTACK = """<script>window.attacked = "script"</script> <img src=x onerror="window.attacked = 'img'">

[link](javascript:window.attacked='link') <a href="javascript:window.attacked='a'">a</a>

<iframe srcdoc="<script>parent.attacked='frame'</script>"></iframe> <style>body { display: none }</style>

```html
<svg onload="window.attacked = 'code'">
```
"""
LONG = " ".join(f"word{number}" for number in range(8000))
RULES = [
    {"when": "afterwards", "say": "On we go."},
    {"when": ["It rains.", "weather"], "say": "Take an umbrella."},
    {"when": "weather", "say": "I look.\n" + scripted.call("look_up", town="Bern")},
    {"when": "attack", "say": ATTACK},
    {"when": "markdown", "say": MARKDOWN},
    {"when": "for ever", "say": LONG},
    {"when": "think", "say": "<think>\nTwo and two are **four**.\n</think>\n\nFour."},
    {"when": "second question", "say": "The second answer."},
    {"when": "question", "say": "The first answer."},
]
TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}}]
SERIOUS = ("serious", "critical")
PATIENCE = 20_000  # milliseconds


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    assert chromium, "the tests of the page need Debian's chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def lead(tmp_path_factory):
    with Cluster() as cluster:
        yield scripted.lead(cluster, tmp_path_factory.mktemp("page"), RULES).wait_ready()


@pytest.fixture
def open_page(browser):
    """Opens the page of a lead in a browser that knows nothing yet. After the test nothing may have been complained about;
    answers that are no success are allowed where the test says so."""
    pages, complaints = [], []

    def complain(page, text):
        if not (page.refusals_expected and text.startswith("Failed to load resource")):
            complaints.append(text)

    def opened(lead, path="/", refusals_expected=False, **options):
        context = browser.new_context(locale="en-GB", permissions=["clipboard-read", "clipboard-write"], **options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.refusals_expected = refusals_expected
        page.on("console", lambda message: message.type in ("error", "warning") and complain(page, message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith((lead.url, "data:", "blob:")) or complaints.append(request.url))
        page.goto(lead.url + path)
        pages.append(context)
        return page

    expect.set_options(timeout=PATIENCE)
    yield opened
    for context in pages:
        assert context.cookies() == []
        context.close()
    assert complaints == []


def field(page):
    return page.get_by_role("textbox", name="Message", exact=True)


def button(page, name):
    return page.get_by_role("button", name=name, exact=True)


def answers(page):
    return page.get_by_role("article", name="Answer")


def ask(page, text):
    field(page).fill(text)
    field(page).press("Enter")
    expect(button(page, "Send")).to_be_visible()


def test_chats_stream_and_stay(lead, open_page):
    page = open_page(lead)
    ask(page, "A question about <b>tags</b>")
    answer = answers(page)
    expect(answer).to_contain_text("The first answer.")
    expect(answer).to_contain_text(re.compile(r"5 tokens.*first after .*prompt \d+"))
    expect(page.locator(".bubble")).to_have_text("A question about <b>tags</b>")
    ask(page, "A second question")
    expect(answer).to_have_count(2)
    expect(answer.last).to_contain_text("The second answer.")
    assert "The first answer." in lead.prompts()[-1][1]
    button(page, "New chat").click()
    expect(answer).to_have_count(0)
    ask(page, "weather?")
    page.reload()
    expect(answer).to_have_count(1)
    chats = page.get_by_role("navigation", name="Your chats").get_by_role("link")
    expect(chats).to_have_text(["weather?", "A question about <b>tags</b>"])
    chats.last.click()
    expect(answer).to_have_count(2)
    expect(answer.last).to_contain_text("The second answer.")
    chats.last.hover()
    button(page, "Rename A question about <b>tags</b>").click()
    page.get_by_role("textbox", name="New name").fill("Tags")
    page.keyboard.press("Enter")
    expect(chats.last).to_have_text("Tags")
    page.get_by_role("searchbox").fill("umbrella SECOND")
    expect(chats).to_have_count(0)
    page.get_by_role("searchbox").fill("answer SECOND")
    expect(chats).to_have_text(["Tags"])
    page.get_by_role("searchbox").fill("")
    chats.last.hover()
    button(page, "Delete Tags").click()
    expect(chats).to_have_text(["weather?"])
    button(page, "Undo").click()
    expect(chats).to_have_count(2)
    page.reload()
    expect(chats).to_have_count(2)


def test_an_answer_is_stopped(lead, open_page):
    page = open_page(lead)
    cancelled = lead.metric("kaiju_requests_cancelled_total")
    field(page).fill("for ever")
    field(page).press("Enter")
    expect(answers(page)).to_contain_text("word20 ")
    # Who reads further up is not moved.
    expect(answers(page)).to_contain_text("word600 ")
    page.locator("#scroller").evaluate("element => element.scrollTo(0, 40)")
    expect(button(page, "Go to the latest message")).to_be_visible()
    expect(answers(page)).to_contain_text("word700 ")
    assert page.locator("#scroller").evaluate("element => element.scrollTop") == 40
    button(page, "Go to the latest message").click()
    expect(button(page, "Go to the latest message")).to_be_hidden()
    button(page, "Stop").click()
    expect(answers(page)).to_contain_text("stopped")
    assert "word7999" not in answers(page).inner_text()
    eventually(lambda: lead.metric("kaiju_requests_cancelled_total") == cancelled + 1, "the request is cancelled")
    length = len(answers(page).inner_text())
    ask(page, "afterwards")
    expect(answers(page).last).to_have_text(re.compile("On we go."))
    assert len(answers(page).first.inner_text()) == length
    assert "word20" in lead.prompts()[-1][1]
    # A chat that is deleted while it is answered stays deleted.
    button(page, "New chat").click()
    field(page).fill("for ever")
    field(page).press("Enter")
    expect(answers(page).last).to_contain_text("word20 ")
    chats = page.get_by_role("navigation", name="Your chats").get_by_role("link")
    expect(chats).to_have_count(2)
    chats.first.hover()
    button(page, "Delete for ever").first.click()
    eventually(lambda: lead.metric("kaiju_requests_running") == 0, "the request has ended")
    page.reload()
    expect(field(page)).to_be_focused()
    expect(chats).to_have_count(1)


def test_two_windows_show_one_chat(lead, open_page):
    page = open_page(lead)
    ask(page, "A question")
    other = page.context.new_page()
    other.goto(page.url)
    other.locator(".bubble").hover()
    button(other, "Edit message").click()
    edited = other.get_by_role("textbox", name="Edit message")
    edited.fill("A second question")
    ask(page, "weather?")
    expect(answers(other).last).to_contain_text("first after")  # the first window has said its last word
    expect(edited).to_have_value("A second question")
    expect(edited).to_be_focused()
    edited.press("Enter")
    for window in (other, page):
        expect(answers(window)).to_have_count(1)
        expect(answers(window)).to_have_text(re.compile("The second answer."))


def test_messages_branch(lead, open_page):
    page = open_page(lead)
    ask(page, "question")
    ask(page, "second question")
    page.get_by_role("article", name="You").first.hover()
    button(page, "Edit message").first.click()
    editor = page.get_by_role("textbox", name="Edit message")
    expect(editor).to_have_value("question")
    editor.fill("think")
    button(page, "Send").first.click()
    expect(answers(page)).to_have_count(1)
    expect(answers(page)).to_contain_text("Four.")
    expect(page.get_by_label("Branch 2 of 2")).to_be_visible()
    button(page, "Previous branch").click()
    expect(answers(page)).to_have_count(2)
    answers(page).last.hover()
    button(page, "Try again").last.click()
    expect(page.get_by_label("Branch 2 of 2")).to_have_count(1)
    expect(answers(page).last).to_contain_text("The second answer.")
    page.reload()
    expect(page.get_by_label("Branch 2 of 2")).to_have_count(1)
    answers(page).first.hover()
    button(page, "Delete message").nth(1).click()
    expect(answers(page)).to_have_count(0)
    button(page, "Undo").click()
    expect(answers(page)).to_have_count(2)


def test_markdown_is_shown_and_code_is_copied(lead, open_page):
    page = open_page(lead)
    ask(page, "markdown")
    answer = answers(page)
    expect(answer.get_by_role("heading", name="Doubling")).to_be_visible()
    expect(answer.get_by_role("cell")).to_have_text(["1", "2"])
    expect(answer.get_by_role("checkbox")).to_be_checked()
    expect(answer.locator("ol")).to_have_attribute("start", "7")
    expect(answer.locator("strong")).to_have_text("bold")
    expect(answer.locator(".hljs-keyword")).to_have_text(["def", "return"])
    expect(answer.get_by_role("link", name="of a wave")).to_have_attribute("href", "https://kaiju.example/wave.png")
    expect(answer.get_by_role("link", name="a link")).to_have_attribute("rel", "noopener noreferrer")
    button(page, "Copy the code").click()
    expect(button(page, "Copy the code")).to_have_text("Copied")
    assert page.evaluate("() => navigator.clipboard.readText()") == CODE.rstrip("\n")
    answer.hover()
    button(page, "Copy message").last.click()
    assert page.evaluate("() => navigator.clipboard.readText()").strip() == MARKDOWN.strip()


def test_markup_in_messages_is_text(lead, open_page):
    page = open_page(lead)
    ask(page, "attack " + ATTACK)
    expect(answers(page)).to_contain_text('<script>window.attacked = "script"</script>')
    expect(answers(page)).to_contain_text("<iframe srcdoc=")
    expect(page.locator(".bubble")).to_contain_text("<img src=x onerror=")
    assert page.locator("#messages").locator("script, img, iframe, style, [onerror], [onload]").count() == 0
    for link in answers(page).get_by_text("link", exact=True).all():
        assert "javascript" not in (link.get_attribute("href") or "")
    page.reload()
    expect(answers(page)).to_contain_text("<iframe srcdoc=")
    assert page.evaluate("() => window.attacked") is None


def test_thoughts_fold_and_tools_are_answered(lead, open_page):
    page = open_page(lead)
    ask(page, "think")
    expect(answers(page)).to_contain_text("Four.")
    thought = answers(page).get_by_role("group")
    expect(thought).to_have_js_property("open", False)
    thought.get_by_text("Thought").click()
    expect(thought.locator("strong")).to_have_text("four")
    button(page, "Settings of this chat").click()
    page.get_by_role("textbox", name="More fields").fill('{"tools": ')
    button(page, "Save").click()
    expect(page.get_by_role("alert").filter(has_text="More fields")).to_be_visible()
    page.get_by_role("textbox", name="More fields").fill(json.dumps({"tools": TOOLS}))
    page.get_by_role("textbox", name="System prompt").fill("Speak of the weather.")
    for name, value in (("Temperature", "0.5"), ("Top p", "0.9"), ("Top k", "7"), ("Max tokens", "300"), ("Seed", "42")):
        page.get_by_role("spinbutton", name=name).fill(value)
    page.get_by_role("checkbox", name="Also for new chats").check()
    button(page, "Save").click()
    with page.expect_request("**/v1/chat/completions") as request:
        ask(page, "weather?")
    body = request.value.post_data_json
    assert {name: body[name] for name in ("temperature", "top_p", "top_k", "max_tokens", "seed", "tools")} == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "max_tokens": 300, "seed": 42, "tools": TOOLS}
    assert body["messages"][0] == {"role": "system", "content": "Speak of the weather."}
    assert [message["content"] for message in body["messages"][1:]] == ["think", "Four.", "weather?"]
    expect(answers(page).last).to_contain_text(re.compile(r"I look\..*Calls look_up.*\"town\": \"Bern\"", re.DOTALL))
    page.get_by_role("textbox", name="Result of look_up").fill("It rains.")
    button(page, "Send result").click()
    expect(answers(page).last).to_contain_text("Take an umbrella.")
    button(page, "New chat").click()
    button(page, "Settings of this chat").click()
    expect(page.get_by_role("spinbutton", name="Seed")).to_have_value("42")


def test_the_keyboard_is_enough(lead, open_page):
    page = open_page(lead, reduced_motion="reduce")
    expect(field(page)).to_be_focused()
    page.keyboard.type("question")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("in two lines")
    page.keyboard.press("Enter")
    expect(page.locator(".bubble")).to_have_text("question\nin two lines")
    expect(answers(page)).to_contain_text("The first answer.")
    expect(page.locator("#announcer")).to_have_text("The answer is complete")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("textbox", name="Edit message")).to_be_focused()
    page.keyboard.press("Escape")
    expect(field(page)).to_be_focused()
    page.keyboard.type("for ever")
    page.keyboard.press("Enter")
    expect(answers(page).last).to_contain_text("word50 ")
    page.keyboard.press("Escape")
    expect(answers(page).last).to_contain_text("stopped")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("navigation", name="Your chats").get_by_role("link")).to_be_focused()
    page.reload()
    expect(field(page)).to_be_focused()
    page.evaluate("() => { document.body.tabIndex = -1; document.body.focus(); }")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the message field")
    expect(skip).to_be_focused()
    assert skip.bounding_box()["y"] >= 0
    # Whatever can be reached shows that it has been.
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement.id === 'composer'")


def test_chats_travel_as_files(lead, open_page, tmp_path):
    page = open_page(lead)
    ask(page, "question")
    with page.expect_download() as download:
        button(page, "Export").click()
    saved = tmp_path / "chats.json"
    download.value.save_as(saved)
    data = json.loads(saved.read_text())
    assert (data["format"], len(data["chats"])) == ("kaiju-chats", 1)
    chat = data["chats"][0]
    for node in chat["nodes"].values():
        node["content"] += ATTACK
        node["role"] = "assistant" if node["role"] == "assistant" else "user"
    chat["title"] = "<img src=x onerror='window.attacked = 1'>"
    circle = {"a": {"role": "user", "parent": "b"}, "b": {"role": "user", "parent": "a"}, "__proto__": {"role": "user"}}
    data["chats"] += [None, {"id": "../x", "nodes": {**circle, "c": 1, "d": {"role": "wizard"}}, "selected": {"": "d", "a": "b", "b": "a"}}]
    saved.write_text(json.dumps(data))
    other = open_page(lead)
    other.locator("#import-file").set_input_files(saved)
    expect(other.get_by_text("2 chats imported.")).to_be_visible()
    other.get_by_role("navigation", name="Your chats").get_by_role("link", name="<img src=x").click()
    expect(answers(other)).to_contain_text("<iframe srcdoc=")
    assert other.evaluate("() => window.attacked") is None
    other.get_by_role("navigation", name="Your chats").get_by_role("link", name="New chat").click()
    expect(answers(other)).to_have_count(0)
    saved.write_text("{")
    other.locator("#import-file").set_input_files(saved)
    expect(other.get_by_text("was not imported")).to_be_visible()


def luminance(page):
    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_light_and_dark_are_readable_by_all(lead, open_page):
    """Also for those who hear the page, as far as axe can tell."""
    pages = {scheme: open_page(lead, color_scheme=scheme, bypass_csp=True) for scheme in ("light", "dark")}
    assert luminance(pages["light"]) > 200 and luminance(pages["dark"]) < 50
    for page in pages.values():
        ask(page, "markdown")
        ask(page, "think")
        check_accessibility(page)
        page.get_by_role("link", name="Cluster", exact=True).click()
        expect(page.get_by_role("heading", name="layers on one node")).to_be_visible()
        check_accessibility(page)
    page = pages["light"]
    page.get_by_role("link", name="Chat", exact=True).click()
    button(page, "Settings of this chat").click()
    check_accessibility(page)
    page.keyboard.press("Escape")
    page.get_by_role("combobox", name="Theme").select_option("Dark")
    assert luminance(page) < 50
    page.reload()
    assert luminance(page) < 50


def check_accessibility(page):
    result = Axe().run(page).response
    found = [f"{violation['id']}: {node['html']}" for violation in result["violations"] if violation["impact"] in SERIOUS
             for node in violation["nodes"]]
    assert found == [] and len(result["passes"]) > 10


def test_narrow_screens(lead, open_page):
    page = open_page(lead, viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    ask(page, "markdown")
    for view in ("Chat", "Cluster"):
        page.get_by_role("link", name=view, exact=True).click()
        expect(page.get_by_role("main", name=view)).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    expect(page.get_by_role("searchbox")).to_be_hidden()
    button(page, "Chats").click()
    page.get_by_role("navigation", name="Your chats").get_by_role("link").click()
    expect(answers(page)).to_be_visible()
    expect(page.get_by_role("searchbox")).to_be_hidden()


def test_a_key_is_asked_for(open_page, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("the-right-key\n")
    keys.chmod(0o600)
    with Cluster() as cluster:
        lead = scripted.lead(cluster, tmp_path / "page", RULES, "--api-key-file", keys, "--alias", "small,coder").wait_ready()
        page = open_page(lead, refusals_expected=True)
        dialog = page.get_by_role("dialog", name="API key")
        for key, complaint in (("wrong", "does not take the key"), ("the-right-key", "")):
            dialog.get_by_label("Key", exact=True).fill(key)
            button(page, "Use").click()
            if complaint:
                expect(dialog).to_contain_text(complaint)
        expect(dialog).to_be_hidden()
        page.get_by_role("combobox", name="Model").select_option("coder")
        with page.expect_request("**/v1/chat/completions") as request:
            ask(page, "question")
        assert request.value.post_data_json["model"] == "coder"
        expect(answers(page)).to_contain_text("The first answer.")
        page.reload()
        ask(page, "second question")
        expect(answers(page).last).to_contain_text("The second answer.")
        expect(dialog).to_be_hidden()
        # The key is in no address and no chat.
        assert "the-right-key" not in page.url
        with page.expect_download() as download:
            button(page, "Export").click()
        assert "the-right-key" not in pathlib.Path(download.value.path()).read_text()


def test_the_page_can_be_left_out(cluster):
    lead = cluster.lead([], "--no-page")
    assert lead.get("/")[0] == 404
    assert json.loads(lead.get("/cluster")[2])["state"] in ("connecting", "loading", "ready")
    lead.wait_ready()
    status = json.loads(lead.get("/cluster")[2])
    assert (status["state"], status["models"], status["nodes"][0]["layers"]) == ("ready", ["kaiju-mini"], 12)


def test_C4_the_page_shows_a_node_that_dies_and_comes_back(cluster, open_page):
    node = cluster.node()
    lead = cluster.lead([node], "--parallel", 2, "--split", "8,4").wait_ready()
    page = open_page(lead, "/#/cluster", refusals_expected=True)
    view = page.get_by_role("main", name="Cluster")
    stages = view.locator(".stage")
    expect(view.locator(".pill")).to_have_text("ready")
    expect(stages).to_have_count(2)
    expect(stages.first).to_contain_text("0–7 of 12")
    expect(stages.last).to_contain_text("8–11 of 12")
    expect(stages.last).to_contain_text(re.compile(r"Memory\s*\d+ of \d+ MB"))
    expect(view.locator(".cells").last.locator(".own.warm")).to_have_count(4)
    expect(view.locator(".arrow .latency")).to_have_text(re.compile(r"\d m?s"))
    page.get_by_role("link", name="Chat", exact=True).click()
    button(page, "Settings of this chat").click()
    page.get_by_role("textbox", name="More fields").fill('{"ignore_eos": true}')
    page.get_by_role("spinbutton", name="Max tokens").fill("3900")
    button(page, "Save").click()
    field(page).fill("Write a class for a stack.")
    field(page).press("Enter")
    expect(answers(page)).to_contain_text(re.compile("token"))
    page.get_by_role("link", name="Cluster", exact=True).click()
    expect(stages.first).to_contain_text(re.compile(r"working.*Busy.*[1-9]\d* %.*[1-9]\d* tokens/s", re.DOTALL))
    expect(view.locator(".arrow")).to_have_class(re.compile("flowing"))
    expect(view.locator(".tile").first).to_contain_text(re.compile(r"[1-9]\d* ?tokens/s"))
    node.kill()
    expect(view.locator(".pill")).to_have_text("recovering")
    expect(stages.last).to_have_attribute("data-state", "away")
    expect(stages.last.locator(".reason")).to_contain_text(node.address)
    expect(view.get_by_role("alert")).to_contain_text(node.address)
    page.get_by_role("link", name="Chat", exact=True).click()
    expect(answers(page)).to_contain_text("Paused:")
    paused = len(answers(page).locator(".markdown").inner_text())
    expect(page.locator("#banner")).to_contain_text(node.address)
    button(page, "New chat").click()
    field(page).fill("Write a function to reverse a string.")
    field(page).press("Enter")
    expect(answers(page)).to_contain_text("Asking again in")
    cluster.restart(node)
    lead.wait_ready()
    expect(page.locator("#banner")).to_be_hidden()
    expect(answers(page)).to_contain_text("first after")
    page.get_by_role("link", name="Cluster", exact=True).click()
    expect(view.locator(".pill")).to_have_text("ready")
    expect(stages.last).not_to_have_attribute("data-state", "away")
    log = view.locator(".log")
    expect(log).to_contain_text(f"Node {node.address} is away")
    expect(log).to_contain_text("Ready, epoch 2")
    button(page, "Chats").click()
    page.get_by_role("navigation", name="Your chats").get_by_role("link", name="Write a class").click()
    expect(answers(page)).not_to_contain_text("Paused:")
    eventually(lambda: len(answers(page).locator(".markdown").inner_text()) > paused, "the answer goes on")
    if button(page, "Stop").is_visible():
        button(page, "Stop").click()
    expect(answers(page)).to_contain_text(re.compile("stopped|3900 tokens"))
