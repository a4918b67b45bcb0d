"""Models on disk: arrays as safetensors, the rest as JSON in its metadata; loading runs no code.

The metadata of a model file hold one JSON document: format and its version, library version, class,
parameters, scalar attributes, feature names, the history of the fit and, where K was chosen, why.
`labels_`, of the size of the data, are not stored. A digest of document and arrays tells a
damaged file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from attnclust import __version__
from attnclust._typing import Array
from attnclust.checks import check_integer, check_number
from attnclust.estimators import AttentionClustering
from attnclust.fitting import History
from attnclust.selection import Selection

FORMAT = "attnclust-model"
FORMAT_VERSION = 1
ARRAYS = ("cluster_centers_", "heads_", "values_", "weights_")
LARGEST = float(np.finfo(np.float64).max)
SCALARS = ("n_features_in_", "n_iter_", "n_rows_used_", "noise_variance_", "temperature_")


class ModelFileError(ValueError):
    """A file that is no model of this library, or a damaged one."""


def save_model(model: AttentionClustering, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one .safetensors file, whole or not at all.

    Parameters
    ----------
    model : AttentionClustering
        Fitted. A `random_state` that is no integer is stored as None; `labels_` are not stored.
    path : str or path
        Replaced if it exists.

    Raises
    ------
    ValueError
        If the model is not fitted.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from attnclust import AttentionClustering
    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> model = AttentionClustering(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model.safetensors")
    ...     bool((load_model(f"{folder}/model.safetensors").predict(X) == model.labels_).all())
    True
    """
    if not hasattr(model, "cluster_centers_"):
        raise ValueError("the model is not fitted: call fit before saving it")
    parameters = model.get_params()
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = None
    names = getattr(model, "feature_names_in_", None)
    document = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "class": type(model).__name__,
        "parameters": parameters,
        "attributes": {name: getattr(model, name) for name in SCALARS},
        "feature_names": None if names is None else list(map(str, names)),
        "history": asdict(model.history_),
        "selection": None if model.selection_ is None else asdict(model.selection_),
    }
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in ARRAYS}
    document = json.loads(json.dumps(document, default=_plain))
    document["digest"] = _digest(document, arrays)
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        save_file(arrays, temporary, {"attnclust": json.dumps(document)})
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except SafetensorError as error:  # what safetensors makes of a full disk
        raise OSError(f"{path}: cannot be written: {error}") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as Python's own, for JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} cannot be stored in a model file")


def _digest(document: dict[str, Any], arrays: dict[str, Array]) -> str:
    told = {key: value for key, value in document.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def describe_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON document of a model file, checked; its arrays are not read.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict

    Raises
    ------
    ModelFileError
        Naming the file: not there, no safetensors file, another program's, damaged, or written by
        a newer version.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> model = AttentionClustering(2, random_state=0).fit(np.array([[0.0], [0.1], [5.0], [5.1]]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/model.safetensors")
    ...     document = describe_model(f"{folder}/model.safetensors")
    >>> document["class"], document["parameters"]["n_clusters"]
    ('AttentionClustering', 2)
    """
    return _read(path, arrays=False)[0]


def load_model(path: str | os.PathLike[str]) -> AttentionClustering:
    """Read a model that `save_model` wrote; it predicts bit for bit as before.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    AttentionClustering
        Fitted, without `labels_`.

    Raises
    ------
    ModelFileError
        As `describe_model`.

    Examples
    --------
    >>> load_model("nothing.safetensors")
    Traceback (most recent call last):
        ...
    attnclust.persistence.ModelFileError: nothing.safetensors: no such model file
    """
    document, arrays = _read(path, arrays=True)
    if document.get("digest") != _digest(document, arrays):
        raise ModelFileError(f"{path}: damaged model file, its digest does not match: copy it anew")
    try:
        model = AttentionClustering(**document["parameters"])
        model._check_parameters()
        attributes = document["attributes"]
        for name, least in (("n_features_in_", 1), ("n_iter_", 0), ("n_rows_used_", 1)):
            check_integer(name, attributes[name], least)
        check_number("noise_variance_", attributes["noise_variance_"], 0.0, LARGEST)
        if attributes["temperature_"] is not None:
            check_number("temperature_", attributes["temperature_"], 0.0, LARGEST)
        for name in SCALARS:
            setattr(model, name, attributes[name])
        if document["feature_names"] is not None:
            names = np.array(document["feature_names"], dtype=object)
            if names.shape != (model.n_features_in_,):
                raise ValueError("feature_names do not match n_features_in_")
            model.feature_names_in_ = names
        history = dict(document["history"])
        for name in ("quality", "log_likelihood"):
            history[name] = tuple(history[name])
        history["moves"] = tuple((n, kept) for n, kept in history["moves"])
        model.history_ = History(**history)
        model.selection_ = None
        if document["selection"] is not None:
            selection = dict(document["selection"])
            selection["eigenvalues"] = np.array(selection["eigenvalues"])
            model.selection_ = Selection(**selection)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: damaged model file, its metadata lack sense: {error}"
        ) from None
    auto = model.selection_ if model.n_clusters == "auto" else None
    k, d = auto.n_clusters if auto else model.n_clusters, model.n_features_in_
    for name in ARRAYS:
        shape = (k,) if name == "weights_" else (k, d)
        array = arrays.get(name)
        if array is None or array.shape != shape or array.dtype not in (np.float32, np.float64):
            raise ModelFileError(f"{path}: damaged model file, {name} is not of shape {shape}")
        if not np.isfinite(array).all():
            raise ModelFileError(f"{path}: damaged model file, {name} is not finite")
        setattr(model, name, array)
    return model


def _read(path: str | os.PathLike[str], *, arrays: bool) -> tuple[dict[str, Any], dict[str, Array]]:
    if not Path(path).is_file():
        raise ModelFileError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            found = {name: file.get_tensor(name) for name in file.keys()} if arrays else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path}: not a model file, or a damaged one ({error})") from None
    try:
        document = json.loads(metadata["attnclust"])
        kind, version = document["format"], document["format_version"]
    except (KeyError, TypeError, ValueError):
        raise ModelFileError(f"{path}: a safetensors file, but no attnclust model") from None
    if kind != FORMAT or document.get("class") != AttentionClustering.__name__:
        raise ModelFileError(f"{path}: holds a {document.get('class')}, not an attnclust model")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: written by attnclust {document.get('library_version')} in format {version}, "
            f"newer than this version reads ({FORMAT_VERSION}): update attnclust"
        )
    return document, found
