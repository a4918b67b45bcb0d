import json
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnclust.reproduce import CLAIM_IDS, Finding, load_claim, measure
from attnclust.reproduce import runner as runner_module
from attnclust.reproduce.claims import band, find_claim, number, statement, tidy, verdict
from attnclust.reproduce.page import judge_record, write_page
from attnclust.reproduce.runner import read_record, recorded, run_claims

pytest.importorskip("matplotlib")
CHEAP = ["C15", "C20"]


@cache
def quick_frame(claim):
    return measure(claim, quick=True)


def through_parquet(frame, path):
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    return pq.read_table(path).to_pandas()


@pytest.mark.parametrize("claim_id", CLAIM_IDS)
def test_a_claim_runs_and_its_verdict_follows_from_its_numbers(claim_id, tmp_path):
    claim = load_claim(claim_id)
    title, said = statement(claim)
    assert title
    assert said
    assert claim.SETTING
    assert claim.SEEDS[0] >= 10
    frame = quick_frame(claim_id)
    assert {"bool", "int64", "float64"}.issuperset(
        str(kind) for kind in frame.dtypes if str(kind) not in ("object", "str")
    )
    assert "seed" in frame
    findings = claim.judge(frame)
    assert findings
    assert claim.explain(frame).endswith(".")
    first, *_ = claim.draw(frame).axes
    assert first.get_ylabel()

    stored = through_parquet(frame, tmp_path / "frame.parquet")
    assert claim.judge(stored) == findings
    assert claim.explain(stored) == claim.explain(frame)

    # Other numbers, another verdict: constants in place of what was measured.
    held = [finding.holds for finding in findings]
    measured = [name for name in frame.select_dtypes("number") if name not in SETTINGS]
    others = []
    for constant in (0.0, 0.5, 1e6):
        poisoned = frame.assign(**dict.fromkeys(measured, constant))
        with np.errstate(all="ignore"):
            try:
                others.append([finding.holds for finding in claim.judge(poisoned)])
            except (ValueError, KeyError, ZeroDivisionError):
                continue
    assert any(other != held for other in others)


# Columns that say what was asked, not what came out.
SETTINGS = {"sigma", "rho", "scale", "tilt", "distance", "cosine"}
SETTINGS |= {"seed", "start", "step", "cluster", "clusters", "surplus", "heads", "dim", "length"}


@pytest.mark.parametrize("claim_id", ["C01", "C06", "C14", "C15", "C20"])
def test_what_must_hold_holds_in_the_quick_run(claim_id):
    findings = load_claim(claim_id).judge(quick_frame(claim_id))
    assert verdict(findings) == "holds", [f for f in findings if not f.holds]


def test_the_interval_of_scales_is_the_closed_one():
    first, second, *_ = load_claim("C12").judge(quick_frame("C12"))
    assert first.holds
    assert second.holds


@pytest.mark.parametrize("claim_id", ["C12", "C20"])
def test_the_same_state_repeats_and_another_does_not(claim_id):
    first = measure(claim_id, quick=True, seeds=3)
    pd.testing.assert_frame_equal(first, measure(claim_id, quick=True, seeds=3), check_exact=True)
    other = measure(claim_id, quick=True, seeds=3, random_state=1)
    assert not first.equals(other)


def test_ids_are_forgiving_and_unknown_ones_suggest():
    assert find_claim(" c7 ") == find_claim("7") == "C07"
    with pytest.raises(ValueError, match=r"no claim 'C26': did you mean C2\d\?"):
        find_claim("C26")
    with pytest.raises(ValueError, match="claims are C01 to C25"):
        measure("everything")
    with pytest.raises(ValueError, match="seeds must be an integer of at least 2"):
        measure("C20", seeds=1)


def test_verdicts_sum_up_findings():
    yes, no = (Finding("s", "e", "m", holds) for holds in (True, False))
    assert verdict([yes, yes]) == "holds"
    assert verdict([yes, no]) == "holds in part"
    assert verdict([no]) == "fails"


def test_findings_compare_what_they_say():
    assert Finding.above("s", "x", [1, 2, 3], 1.9).holds
    assert not Finding.above("s", "x", [1, 2, 3], 2).holds
    assert Finding.below("s", "x", [1, 2, 3], 2.1).holds
    assert not Finding.below("s", "x", [1, 2, 3], 2).holds
    sample = np.random.default_rng(0).standard_normal(1000)
    assert Finding.sampled("s", "mean", sample, 0.0).holds
    assert not Finding.sampled("s", "mean", sample, 0.2).holds


def test_numbers_for_people():
    assert [number(x) for x in (1.0, 0.0, 0.98765, 0.999951, 1234.5, -0.99999)] == [
        "1",
        "0",
        "0.9877",
        "0.999951",
        "1234",
        "-0.99999",
    ]
    assert band(np.arange(11)) == "5 (1 to 9)"
    assert list(tidy({"x": np.zeros(2)}, sigma=1.0)) == ["sigma", "seed", "x"]


def test_claims_are_recorded_once(tmp_path):
    assert list(run_claims(CHEAP, tmp_path, quick=True, seeds=3)) == CHEAP
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"{claim}.{kind}" for claim in CHEAP for kind in ("parquet", "png", "svg")}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert list(run_claims(CHEAP, tmp_path, quick=True, seeds=3)) == CHEAP
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before

    list(run_claims(["C20"], tmp_path, quick=True, seeds=4))
    record = read_record(tmp_path, "C20")
    assert (record.run.seeds, record.run.quick, record.run.random_state) == (4, True, 0)
    pd.testing.assert_frame_equal(record.frame, measure("C20", quick=True, seeds=4))
    assert (tmp_path / "C15.svg").stat().st_mtime_ns == before[tmp_path / "C15.svg"]


def test_processes_share_the_work(tmp_path):
    done = list(run_claims(CHEAP, tmp_path, quick=True, seeds=2, jobs=2))
    assert sorted(done) == CHEAP
    assert [record.run.claim for record in recorded(tmp_path)] == CHEAP


def test_what_is_not_a_record_is_run_again(tmp_path):
    list(run_claims(["C20"], tmp_path, quick=True, seeds=2))
    path = tmp_path / "C20.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert read_record(tmp_path, "C20") is None
    list(run_claims(["C20"], tmp_path, quick=True, seeds=2))
    assert path.read_bytes() == whole or read_record(tmp_path, "C20") is not None

    table = pq.read_table(path)
    said = json.loads(table.schema.metadata[runner_module.METADATA]) | {"source": "older"}
    metadata = {**table.schema.metadata, runner_module.METADATA: json.dumps(said)}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    assert read_record(tmp_path, "C20") is None


def test_a_stopped_claim_leaves_nothing(tmp_path, monkeypatch):
    def stop(figure, path):
        path.write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(runner_module, "save_picture", stop)
    with pytest.raises(KeyboardInterrupt):
        list(run_claims(["C20"], tmp_path, quick=True, seeds=2))
    assert list(tmp_path.iterdir()) == []


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.links, self.ids, self.text = [], [], set(), []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in ("meta", "br", "img", "link"):
            self.open.append(tag)
        self.links += [attrs[name] for name in ("src", "href") if name in attrs]
        self.ids.add(attrs.get("id"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_needs_nothing_else(tmp_path, monkeypatch):
    list(run_claims(CHEAP, tmp_path, quick=True, seeds=2))
    claim = load_claim("C20")
    hostile = Finding("<script>alert(1)</script>", "a < b & c", '"', False)
    monkeypatch.setattr(claim, "judge", lambda frame: [hostile])
    path = write_page([judge_record(record) for record in recorded(tmp_path)], tmp_path)
    page = Reader()
    page.feed(path.read_text())
    assert page.open == []
    assert "<script>alert(1)</script>" in page.text
    assert {"C15", "C20"} <= page.ids
    outside = [link for link in page.links if not link.startswith(("#", "data:image/svg+xml"))]
    assert outside == ["https://arxiv.org/abs/2505.13112"]
    assert "url(" not in path.read_text()
    assert any("fails" in text for text in page.text)
    assert not (tmp_path / ".index.html").exists()
