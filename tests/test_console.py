import pytest
import typer

from attnclust.console import OutputError, answering, outputs


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValueError("two\nlines"), 1),
        (MemoryError("so much"), 1),
        (OSError(28, "No space left on device"), 3),
        (OutputError("no"), 3),
        (RuntimeError("bug"), 70),
        (KeyboardInterrupt(), 130),
    ],
)
def test_every_error_is_one_line_and_a_code(error, code, capsys):
    with pytest.raises(typer.Exit) as caught, answering(quiet=True):
        raise error
    assert caught.value.exit_code == code
    said = capsys.readouterr().err
    assert said.startswith("attnclust: error: ")
    assert said.count("\n") == 1


def test_defects_show_where_when_asked(monkeypatch):
    monkeypatch.setenv("ATTNCLUST_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="bug"), answering(quiet=True):
        raise RuntimeError("bug")


def test_results_appear_together_or_not_at_all(tmp_path):
    out, file = tmp_path / "deep" / "out", tmp_path / "v.npy"
    with pytest.raises(RuntimeError, match="half way"), outputs(out, file) as folder:
        (folder / "labels.npy").write_text("new")
        raise RuntimeError("half way")
    assert list(tmp_path.iterdir()) == []
    with outputs(out, file) as folder:
        (folder / "labels.npy").write_text("old")
        assert not (out / "labels.npy").exists()
    with pytest.raises(RuntimeError, match="half way"), outputs(out, file) as folder:
        (folder / "labels.npy").write_text("new")
        raise RuntimeError("half way")
    assert [p.name for p in out.iterdir()] == ["labels.npy"]
    assert (out / "labels.npy").read_text() == "old"


def test_a_folder_in_the_way_of_a_result(tmp_path):
    (tmp_path / "summary.json").mkdir()
    with (
        pytest.raises(OutputError, match="a folder is in the way"),
        outputs(tmp_path, tmp_path / "v.npy") as folder,
    ):
        (folder / "labels.npy").write_text("new")
        (folder / "summary.json").write_text("{}")
    assert [p.name for p in tmp_path.iterdir()] == ["summary.json"]
