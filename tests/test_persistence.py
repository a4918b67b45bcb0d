import json
import struct

import numpy as np
import pandas as pd
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attnclust import AttentionClustering, load_model, save_model
from attnclust.persistence import ModelFileError, _digest, describe_model


@pytest.fixture
def rows(blobs):
    return blobs(500, 6, 4, 0.3)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"metric": "cosine", "threshold": 0.8}, {"solver": "pgd", "n_steps": 50}],
)
def test_the_round_trip_is_bitwise(rows, tmp_path, dtype, parameters):
    X = rows.astype(dtype)
    model = AttentionClustering(4, random_state=0, **parameters).fit(X)
    save_model(model, tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    for name in ("cluster_centers_", "heads_", "values_", "weights_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
        assert getattr(back, name).dtype == getattr(model, name).dtype
    assert back.noise_variance_ == model.noise_variance_
    assert back.temperature_ == model.temperature_
    assert back.history_ == model.history_
    assert back.get_params() == model.get_params()
    for method in ("predict", "predict_proba", "transform", "attend", "score_samples"):
        np.testing.assert_array_equal(getattr(back, method)(X), getattr(model, method)(X))
    assert not hasattr(back, "labels_")


def test_names_and_random_states(rows, tmp_path):
    frame = pd.DataFrame(rows, columns=list("abcdef"))
    model = AttentionClustering(2, random_state=np.random.RandomState(0)).fit(frame)
    save_model(model, tmp_path / "m.safetensors")
    back = load_model(tmp_path / "m.safetensors")
    assert list(back.feature_names_in_) == list("abcdef")
    assert back.random_state is None
    np.testing.assert_array_equal(back.predict(frame), model.labels_)
    assert describe_model(tmp_path / "m.safetensors")["class"] == "AttentionClustering"


def test_a_model_that_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save_model(AttentionClustering(), tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


class TestBadFiles:
    @pytest.fixture
    def path(self, rows, tmp_path):
        path = tmp_path / "m.safetensors"
        save_model(AttentionClustering(3, random_state=0).fit(rows), path)
        return path

    def rewrite(self, path, change):
        """The file with its JSON document changed."""
        raw = path.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8 : 8 + size])
        document = json.loads(header["__metadata__"]["attnclust"])
        change(document)
        document["digest"] = _digest(document, load_file(path))
        header["__metadata__"]["attnclust"] = json.dumps(document)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])

    def test_missing_truncated_and_foreign_files(self, path, tmp_path):
        with pytest.raises(ModelFileError, match=r"none\.safetensors: no such"):
            load_model(tmp_path / "none.safetensors")
        raw = path.read_bytes()
        for damaged in (b"", b"hello", raw[:5], raw[:100], raw[:-8], b"\xff" * 64):
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError, match=r"m\.safetensors: not a model file"):
                load_model(path)
        save_file({"a": np.ones(3)}, path)
        with pytest.raises(ModelFileError, match="no attnclust model"):
            load_model(path)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda d: d.update(format_version=99), "newer than this version reads"),
            (lambda d: d.update({"class": "Other"}), "holds a Other"),
            (lambda d: d.pop("parameters"), "damaged"),
            (lambda d: d["parameters"].update(n_clusters="many"), "damaged"),
            (lambda d: d["parameters"].update(n_clusters=5), "damaged"),
            (lambda d: d["parameters"].update(unknown=1), "damaged"),
            (lambda d: d["attributes"].pop("noise_variance_"), "damaged"),
            (lambda d: d["attributes"].update(noise_variance_="much"), "noise_variance_ must be"),
            (
                lambda d: d["attributes"].update(noise_variance_=float("nan")),
                "noise_variance_ must",
            ),
            (lambda d: d["attributes"].update(temperature_=-1.0), "temperature_ must be"),
            (lambda d: d["attributes"].update(n_rows_used_=0), "n_rows_used_ must be"),
            (lambda d: d.pop("feature_names"), "damaged"),
            (lambda d: d.update(feature_names=["a"]), "feature_names do not match"),
            (lambda d: d["history"].update(moves=3), "damaged"),
        ],
    )
    def test_documents_that_make_no_sense(self, path, change, message):
        self.rewrite(path, change)
        with pytest.raises(ModelFileError, match=message):
            load_model(path)

    def test_a_changed_byte_anywhere_is_told(self, path):
        """In the arrays as in the document: no model that predicts otherwise is ever loaded."""
        raw = path.read_bytes()
        for place in np.random.default_rng(0).integers(8, len(raw), 200):
            path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
            with pytest.raises(ModelFileError, match=r"m\.safetensors"):
                load_model(path)

    @pytest.mark.parametrize("error", [OSError("disk full"), SafetensorError("disk full")])
    def test_a_failed_write_leaves_the_old_file(self, path, rows, error, monkeypatch):
        before = path.read_bytes()

        def fail(*_args):
            raise error

        monkeypatch.setattr("attnclust.persistence.save_file", fail)
        with pytest.raises(OSError, match="disk full"):
            save_model(AttentionClustering(2).fit(rows), path)
        assert path.read_bytes() == before
        assert list(path.parent.iterdir()) == [path]
