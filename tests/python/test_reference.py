"""The HTML reference: all that is public is in it, with a text, and its search works in a browser."""
import html.parser
import os
import pathlib
import shutil
import subprocess

import pytest
import tensord as td

PAGE = pathlib.Path(td.__file__).parent / "reference.html"
VOID = {"meta", "input", "br"}


class Reader(html.parser.HTMLParser):
    """Well-formed, with ids that are there once; what each entry says."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.entries, self.entry = [], [], [], {}, None

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if "id" in given:
            self.ids.append(given["id"])
        if given.get("class") == "entry":
            self.entry, self.entries[given["id"]] = given["id"], ""
        if given.get("href", "").startswith("#"):
            self.links.append(given["href"][1:])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "section":
            self.entry = None

    def handle_data(self, data):
        if self.entry and "h3" not in self.open:
            self.entries[self.entry] += data


@pytest.fixture(scope="module")
def page():
    if not PAGE.exists():
        pytest.skip("the reference is not built with a sanitizer")
    reader = Reader()
    reader.feed(PAGE.read_text())
    assert not reader.open
    return reader


def test_ids_and_links(page):
    assert len(page.ids) == len(set(page.ids)) and set(page.links) <= set(page.ids)


def test_everything_public_is_there(page):
    for owner, where in ((td, "tensord"), (td.Tensor, "tensord.Tensor"), (td.nn, "tensord.nn"), (td.nn.functional, "tensord.nn.functional"),
                         (td.optim, "tensord.optim")):
        for name in dir(owner):
            value = owner.__dict__.get(name)
            if not name.startswith("_") and callable(value) and (getattr(value, "__module__", "") or "tensord").startswith("tensord"):
                assert f"{where}.{name}" in page.entries


def test_ops_say_what_the_table_says(page):
    text = page.entries["tensord.softmax"]
    assert "softmax_backward" in text and "0.2689414" in text and "floats" in text
    assert page.entries["tensord.torch.set_sharing_strategy"]


def test_search_in_a_browser(page, tmp_path):
    browser = shutil.which("chromium")
    if not browser:
        pytest.skip("there is no chromium")
    probe = tmp_path / "probe.html"
    probe.write_text(PAGE.read_text() + '<script>box.value = "nn.functional cross_entropy"; search(); '
                     'document.title = entries.filter(e => !e.classList.contains("gone")).map(e => e.id).join(" ")</script>')
    r = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom", f"file://{probe}"],
                       capture_output=True, text=True, timeout=120, env={**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    title = r.stdout.partition("<title>")[2].partition("</title>")[0].split()
    assert "tensord.nn.functional.cross_entropy" in title and "tensord.softmax" not in title and len(title) < 10, (title, r.stderr[-500:])
