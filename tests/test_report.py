import base64
import csv
import io
import json
import re
import shutil
import time
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from attnclust import AttentionClustering
from attnclust.files import InputError, Vectors, read_vectors
from attnclust.html import save_page
from attnclust.moments import spectrum
from attnclust.plotting.planes import plane_of_centres
from attnclust.refinement import Clusters
from attnclust.report import data as telling
from attnclust.report.eigenvalues import picture, reason_for
from attnclust.selection import Selection, noise_edge
from attnclust.summary import summarize
from attnclust.tokens import Tokens

HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    "<!--<script>",
    "\"quoted\" & 'single' &amp; `back`",
    "\u202eright to left\u202c \u2067marks",
    "before\0after",
    "x" * 10_000,
    "half a pair \ud800 here",
    "line\u2028separator\nnew line",
    "=1+1",
    "{facts} %s ${x}",
    "",
    None,
]


# The functions


@pytest.mark.parametrize("text", [text for text in HOSTILE if text])
def test_embedded_texts_come_back_and_cannot_end_the_script(text):
    shown = telling.clip(text, 20_000)
    packed = telling.embed({"text": shown})
    assert not set("<>&\u2028\u2029") & set(packed)
    assert json.loads(packed) == {"text": shown}
    assert shown == text.replace("\ud800", "?")
    packed.encode("utf-8")


def test_texts_are_cut_and_missing_ones_have_none():
    assert telling.clip("abc", 3) == "abc"
    assert telling.clip("abcd", 3) == "ab…"
    assert telling.clip(7, 3) == "7"
    assert telling.clip(None, 3) is telling.clip(float("nan"), 3) is None


def test_rows_as_told():
    n = 7
    points = np.arange(2.0 * n).reshape(n, 2)
    labels = np.array([0, 1, -1, 0, 1, 0, 1])
    known = np.array(["a", None, "b", "a", "b", "c", None], dtype=object)
    told = telling.tell_rows(
        points,
        labels,
        {"confidence": points[:, 0]},
        [5, 2],
        ids=["i", None, 3, "=1", "", "x", "y"],
        texts=["t" * 2000] * n,
        known=known,
        random_state=0,
    )

    def unpacked(packed, dtype):
        return np.frombuffer(base64.b64decode(packed), dtype)

    np.testing.assert_array_equal(unpacked(told["y"], "<f4"), points[:, 1])
    np.testing.assert_array_equal(unpacked(told["labels"], "<i4"), labels)
    np.testing.assert_array_equal(unpacked(told["figures"]["confidence"], "<f4"), points[:, 0])
    codes = unpacked(told["known"]["codes"], "<i4")
    names = [*told["known"]["names"], None]
    assert [names[code] for code in codes] == known.tolist()
    assert told["ids"] == ["i", "", "3", "=1", "", "x", "y"]
    assert {len(text) for text in told["texts"]} == {telling.HOVER_CHARACTERS}
    assert {row: len(text) for row, text in told["long"].items()} == {5: 1000, 2: 1000}
    assert told["drawn"] is None


def test_more_rows_than_the_map_holds(monkeypatch):
    monkeypatch.setattr(telling, "MAP_ROWS", 4)
    points, labels = np.arange(20.0).reshape(10, 2), np.arange(10)
    texts = [f"text {row}" for row in range(10)]
    told = telling.tell_rows(
        points, labels, {}, [], ids=None, texts=texts, known=None, random_state=0
    )
    drawn = np.frombuffer(base64.b64decode(told["drawn"]), "<i4")
    assert len(drawn) == 4
    assert (np.diff(drawn) > 0).all()
    x = np.frombuffer(base64.b64decode(told["x"]), "<f4")
    np.testing.assert_array_equal(x, points[drawn, 0])
    assert told["texts"] == [texts[row] for row in drawn]
    assert len(base64.b64decode(told["labels"])) == 40


def test_a_given_k_is_weighed_against_the_spectrum(blobs):
    X, _, _ = blobs(3000, 32, 8, 0.1)
    tokens = Tokens(X)
    seen = spectrum(tokens, 32, np.random.default_rng(0))
    noise, edge = noise_edge(seen, 3000)
    for k, verdict in ((8, "speaks for this K"), (3, "may be more"), (20, "clusters are fewer")):
        found = reason_for(SimpleNamespace(weights_=np.full(k, 1 / k)), tokens)
        assert (found.n_clusters, found.edge, found.noise_variance) == (k, edge, noise)
        assert f"K = {k} was given" in found.reason
        assert f"at most {k - 1} eigenvalues above the noise edge; here 7 are" in found.reason
        assert verdict in found.reason
    chosen = Selection(3, "so it is", 1.0, 2.0, np.ones(3))
    assert reason_for(SimpleNamespace(selection_=chosen), tokens) is chosen


def test_the_picture_of_the_spectrum():
    values = np.array([9.0, 4.0, 1.0, 0.9, 0.0])
    svg = ElementTree.fromstring(picture(values, 1.5))
    circles = svg.findall("circle")
    assert [c.get("class") for c in circles] == ["above", "above", "below", "below"]
    height = [float(c.get("cy")) for c in circles]
    edge = float(next(e for e in svg.findall("line") if e.get("class") == "edge").get("y1"))
    # One logarithmic scale for all: equal ratios are equal heights.
    assert (height[1] - height[0]) / np.log(9 / 4) == pytest.approx(
        (edge - height[1]) / np.log(4 / 1.5), rel=0.01
    )
    assert svg.get("aria-label") == "4 leading eigenvalues, 2 above the noise edge 1.5"
    assert "all rows are alike" in picture(np.zeros(3), 0.0).lower()


def test_a_script_on_a_page_cannot_be_ended_by_its_strings(tmp_path):
    save_page(tmp_path / "p.html", "<t>", "<p>body</p>", "", 'const x = "</SCRIPT><!--";')
    page = (tmp_path / "p.html").read_text()
    assert r'<script>const x = "<\/SCRIPT><\!--";</script></body>' in page
    assert "<title>&lt;t&gt;</title>" in page
    save_page(tmp_path / "p.html", "t", "")
    assert "<script" not in (tmp_path / "p.html").read_text()


def test_columns_that_rows_are_shown_by_are_no_vectors(tmp_path):
    table = pa.table({"a": [1.0, 2], "b": [3.0, 4], "key": [7.5, 8.5], "words": ["1", "two"]})
    pa.parquet.write_table(table, tmp_path / "v.parquet")
    rows = read_vectors(tmp_path / "v.parquet", keep=["b"], shown=["words", "key"])
    assert rows.names == ["a"]
    assert rows.carried.column_names == ["b"]
    assert rows.shown == {"words": ["1", "two"], "key": [7.5, 8.5]}
    with pytest.raises(InputError, match="no column 'word'; did you mean 'words'"):
        read_vectors(tmp_path / "v.parquet", shown=["word"])
    np.savez(tmp_path / "v.npz", rows=np.eye(2), words=np.array(["x", "y"]), more=np.eye(2))
    found = read_vectors(tmp_path / "v.npz", ["rows"], shown=["words"])
    assert found.shown == {"words": ["x", "y"]}
    with pytest.raises(InputError, match="expected one value for each"):
        read_vectors(tmp_path / "v.npz", ["rows"], shown=["more"])
    np.save(tmp_path / "v.npy", np.eye(2))
    with pytest.raises(InputError, match="no columns"):
        read_vectors(tmp_path / "v.npy", shown=["words"])


# The page, and the page in a browser


def write(path, X, n_clusters, *, known=None, ids=None, texts=None, **parameters):
    """The page of a fit, as the command writes it."""
    pytest.importorskip("plotly", reason="the page needs plotly: pip install 'attnclust[report]'")
    from attnclust.report import write_report

    model = AttentionClustering(n_clusters, random_state=0, **parameters).fit(X)
    summary = summarize("fit", path.with_name("<b>&'.csv"), Vectors(X, [], known, None), model,
                        model.labels_)  # fmt: skip
    summary["parameters"] = model.get_params()
    summary["stopped_because"], summary["seconds"] = model.history_.reason, {"fit": 0.1}
    write_report(path, model, X, summary, ids=ids, texts=texts, known=known)
    return model


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no browser: install Chromium (apt-get install chromium) to test the page")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Opens a page; in the end it must have asked for nothing and complained of nothing."""
    contexts, trouble = [], []

    def open_page(path, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        contexts.append(context)

        def route(request):
            if request.request.url == path.as_uri():
                request.continue_()
            else:
                trouble.append(f"request to {request.request.url}")
                request.abort()

        context.route("**", route)
        page = context.new_page()
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
        page.goto(path.as_uri())
        page.wait_for_selector("#map[aria-busy=false]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.fixture(scope="module")
def fitted(tmp_path_factory, browser):
    """Three clusters of 100, 60 and 40 rows, whose texts are hostile."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [100, 60, 40])
    X = 6.0 * np.eye(3, 8)[y] + rng.standard_normal((200, 8))
    texts = [HOSTILE[row % len(HOSTILE)] for row in range(200)]
    ids = [f"<i>{row}</i>" for row in range(200)]
    ids[:6] = ["=1+1", 'a "b", c', "two\nlines", "-5", "@x,y", None]
    path = tmp_path_factory.mktemp("report") / "report.html"
    known = np.array([None if row % 10 == 0 else f"<u>{k}" for row, k in enumerate(y)])
    model = write(path, X, 3, known=known, ids=ids, texts=texts)
    return SimpleNamespace(path=path, model=model, X=X, ids=ids, texts=texts)


def place_of(page, row):
    """Where a row lies on the screen."""
    return page.evaluate(
        """(row) => {
        const data = JSON.parse(document.getElementById("data").textContent);
        const read = (text) => new Float32Array(
          Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
        const map = document.getElementById("map");
        map.scrollIntoView();
        const { left, top } = map.getBoundingClientRect();
        const { xaxis, yaxis } = map._fullLayout;
        return [left + xaxis._offset + xaxis.d2p(read(data.x)[row]),
                top + yaxis._offset + yaxis.d2p(read(data.y)[row])];
        }""",
        row,
    )


def point_at(page, x, y, expected):
    """Move the mouse there, and wait for what is shown: rows on the way are shown, too."""
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=4)
    page.wait_for_function(
        """(expected) => { const hover = document.getElementById("hover");
        return !hover.hidden && hover.textContent.includes(expected); }""",
        arg=expected,
    )


def outermost(model, X):
    """The row that is farthest out on the map, with none above it."""
    tokens = Tokens(np.asarray(X, dtype=float))
    centres = Clusters(model.cluster_centers_.astype(float), model.weights_, 1.0)
    points = plane_of_centres(tokens, centres).points(tokens)
    return int(np.linalg.norm(points, axis=1).argmax())


def shown(text):
    """A text as a person reads it in the page's lists."""
    return re.sub(r"\s+", " ", text.replace("\ud800", "?").replace("\0", "")).strip()


def test_hover_shows_the_row_and_click_its_cluster(opened, fitted):
    page = opened(fitted.path)
    row = outermost(fitted.model, fitted.X)
    x, y = place_of(page, row)
    point_at(page, x, y, f"id {fitted.ids[row]} ·")
    said = page.locator("#hover").inner_text()
    label = fitted.model.labels_[row]
    assert f"cluster {label} · confidence" in said
    assert f"outlier score {fitted.model.outlier_score(fitted.X)[row]:.2f}" in said
    assert shown(fitted.texts[row] or "no text")[:100] in shown(said)
    page.keyboard.press("Escape")
    assert page.locator("#hover").is_hidden()
    page.mouse.click(x, y)
    page.wait_for_function("document.querySelector('#panel-title').textContent.includes('Cluster')")
    assert page.locator("#panel-title").inner_text() == f"Cluster {label}"
    own = np.flatnonzero(fitted.model.labels_ == label)
    nearest = own[np.argsort(fitted.model.outlier_score(fitted.X)[own], kind="stable")[:5]]
    listed = page.locator("#panel ol").first.locator("li").all_inner_texts()
    assert len(listed) == 5
    for place, text in zip(nearest, listed, strict=True):
        assert shown(fitted.ids[place] or "unknown") in shown(text)
    page.locator("#clear").click()
    assert page.locator("#panel-title").inner_text() == "Rows of a cluster"
    farthest = page.locator("#panel ol li").first.inner_text()
    assert shown(fitted.ids[fitted.model.outlier_score(fitted.X).argmax()]) in shown(farthest)


def test_hostile_texts_are_texts(opened, fitted):
    page = opened(fitted.path)
    assert page.title() == "Clusters of <b>&'.csv"
    assert page.locator("h1").inner_text() == "Clusters of <b>&'.csv"
    seen = ""
    for button in page.locator("#clusters tbody button.cluster").all():
        button.click()
        seen += page.locator("#panel").text_content()
    assert page.evaluate("window.hacked") is None
    assert page.locator("#panel img, #panel script, #panel i, #clusters u").count() == 0
    data = json.loads(page.locator("#data").text_content())
    long = {int(row): text for row, text in data["long"].items()}
    assert len(long) >= 15
    for row, text in long.items():
        whole = fitted.texts[row]
        if whole:
            assert text == telling.clip(whole, telling.LIST_CHARACTERS)
            assert text.replace("\0", "") in seen.replace("\0", "")
    assert "<u>" in page.locator("#clusters").inner_text()
    marks = page.locator("#panel bdi").evaluate_all("all => all.every(e => e.dir === 'auto')")
    assert marks is True


def test_the_table_sorts_and_filters(opened, fitted):
    page = opened(fitted.path)

    def column(place):
        return page.locator(f"#clusters tbody tr:visible td:nth-child({place})").all_inner_texts()

    heads = page.locator("#clusters thead th").all_inner_texts()
    size, spread = heads.index("size") + 1, heads.index("spread") + 1
    assert column(size) == ["100", "60", "40"]
    page.get_by_role("button", name="size").click()
    assert column(size) == ["40", "60", "100"]
    assert page.locator("[aria-sort]").get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="spread").click()
    values = list(map(float, column(spread)))
    assert values == sorted(values, reverse=True)
    assert page.locator("[aria-sort]").count() == 1
    label = int(fitted.model.labels_[0])
    page.locator("#filter").fill("<U>0")  # the class of row 0
    assert column(1) == [str(label)]
    assert page.locator("#count").inner_text() == "1 of 3 clusters"
    page.locator("#filter").fill("nothing such")
    assert column(1) == []
    page.locator("#filter").fill("")
    assert len(column(1)) == 3


def test_the_keyboard_reaches_everything(opened, fitted):
    page = opened(fitted.path)
    wanted = page.locator("button:visible:enabled, input:visible, summary, [tabindex='0']").count()
    assert wanted > 15
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                """() => { const e = document.activeElement;
                return [...document.querySelectorAll("*")].indexOf(e); }"""
            )
        )
    assert len(reached - {1, -1}) >= wanted  # the body, between the last and the first
    page.locator("#filter").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('tbody button.cluster')"):
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("#panel-title").inner_text().startswith("Cluster ")
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    page.locator("#zoom-in").focus()
    before = page.evaluate("map.layout.xaxis.range.join()")
    page.keyboard.press("Enter")
    page.wait_for_function("before => map.layout.xaxis.range.join() !== before", arg=before)


def test_labels_to_take_away(opened, fitted):
    page = opened(fitted.path, accept_downloads=True)
    with page.expect_download() as waiting:
        page.locator("#download").click()
    text = waiting.value.path().read_bytes().decode()
    head, *rows = csv.reader(io.StringIO(text))
    assert head == ["id", "cluster", "confidence"]
    assert [int(row[1]) for row in rows] == fitted.model.labels_.tolist()
    confidence = [float(row[2]) for row in rows]
    np.testing.assert_allclose(confidence, fitted.model.confidence(fitted.X), rtol=1e-6)
    ids = [row[0] for row in rows]
    assert ids[:6] == ["'=1+1", 'a "b", c', "two\nlines", "-5", "'@x,y", ""]
    assert ids[6:] == fitted.ids[6:]


CONTRAST = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.checkVisibility() || e.matches(":disabled, script, #map :not(text)")) continue;
    const style = getComputedStyle(e);
    const ink = e instanceof SVGElement ? style.fill : style.color;
    if (!/^rgb/.test(ink)) continue;
    const [a, b] = [light(numbers(ink)), light(behind(e))].sort((u, v) => v - u);
    found.push([(a + 0.05) / (b + 0.05), e.textContent.slice(0, 40)]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable(opened, fitted, scheme):
    page = opened(fitted.path, color_scheme=scheme)
    page.locator("#clusters tbody button.cluster").first.click()
    page.locator("summary").click()
    found = page.evaluate(CONTRAST)
    assert len(found) > 80
    assert [text for ratio, text in found if ratio < 4.5] == []
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


def test_a_change_of_scheme_reaches_the_map(opened, fitted):
    page = opened(fitted.path, color_scheme="light")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("map.layout.paper_bgcolor === '#14171a'")


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_is_no_wider_than_the_screen(opened, fitted, width):
    page = opened(fitted.path)
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_fewest_things_to_show(tmp_path, opened):
    rng = np.random.default_rng(0)
    path = tmp_path / "report.html"
    write(path, rng.standard_normal((30, 1)), 1)
    page = opened(path)
    page.locator("#clusters tbody button.cluster").click()
    assert page.locator("#panel-title").inner_text() == "Cluster 0"
    assert "margin" not in page.locator("#panel").inner_text()
    assert page.locator("#panel").inner_text().count("row ") == 5
    with page.expect_download() as waiting:
        page.locator("#download").click()
    assert waiting.value.path().read_bytes().startswith(b"row,cluster,confidence\r\n0,0,1\r\n")


def test_rows_without_a_cluster_and_a_chosen_k(tmp_path, opened, blobs):
    X, _, _ = blobs(2000, 6, 3, 0.25)
    path = tmp_path / "report.html"
    model = write(path, X.astype(np.float32), "auto", threshold=0.99)
    page = opened(path)
    assert model.selection_.reason in page.locator("section p").last.inner_text()
    assert page.locator(".tried tbody tr").count() == len(model.selection_.candidates)
    assert page.locator(".tried tr.chosen td").first.inner_text() == str(len(model.weights_))
    assert (model.labels_ < 0).any()
    assert "rows below the threshold" in page.locator(".facts").inner_text()


def test_a_hundred_thousand_rows(tmp_path, opened, blobs):
    X, _, _ = blobs(100_000, 8, 5, 0.1, dtype=np.float32)
    texts = [f"text number {row}" for row in range(len(X))]
    path = tmp_path / "report.html"
    model = write(path, X, 5, texts=texts)
    begun = time.monotonic()
    page = opened(path)
    assert time.monotonic() - begun < 15
    row = outermost(model, X)
    x, y = place_of(page, row)
    point_at(page, x, y, f"row {row} ·")
    assert f"text number {row}\n" in page.locator("#hover").inner_text()
