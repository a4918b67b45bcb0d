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
from attnclust.checks import check_choice, check_integer, check_number
from attnclust.estimators import KERNELS, AttentionClustering
from attnclust.features import FeatureMap
from attnclust.fitting import History
from attnclust.moments import Moments
from attnclust.selection import Selection
from attnclust.streams import State

FORMAT = "attnclust-model"
STATE_FORMAT = "attnclust-state"
FORMAT_VERSION = 1
ARRAYS = ("cluster_centers_", "heads_", "values_", "weights_")
STATE_ARRAYS = ("rows", "keys", "log_weights")
STATE_SCALARS = ("n_rows", "size", "seed", "half_life")
LARGEST = float(np.finfo(np.float64).max)
SCALARS = ("n_features_in_", "n_iter_", "n_rows_used_", "noise_variance_", "temperature_", "lift_")
# Of a feature map: arrays, with their shapes in m, d and K, and the rest.
MAP_ARRAYS = {"points": "md", "phase": "m", "projection": "mK", "lengths": "K", "shift": "d"}
MAP_SCALARS = ("bandwidth", "noise_variance", "unit")


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
    features = model.feature_map_
    if features is not None:
        document["feature_map"] = {name: getattr(features, name) for name in ("kind", *MAP_SCALARS)}
        for name in MAP_ARRAYS:
            arrays[f"feature_map.{name}"] = np.ascontiguousarray(getattr(features, name))
    document = json.loads(json.dumps(document, default=_plain))
    _write(Path(path), document, arrays)


def _write(path: Path, document: dict[str, Any], arrays: dict[str, Array]) -> None:
    """A file with its digest, whole or not at all."""
    document["digest"] = _digest(document, arrays)
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
        model.feature_map_ = _feature_map(document.get("feature_map"), arrays, model)
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


def _feature_map(
    told: dict[str, Any] | None, arrays: dict[str, Array], model: AttentionClustering
) -> FeatureMap | None:
    if told is None:
        return None
    check_choice("kind", told["kind"], KERNELS)
    for name in MAP_SCALARS:
        check_number(name, told[name], np.finfo(np.float64).tiny, LARGEST)
    found = {name: arrays[f"feature_map.{name}"] for name in MAP_ARRAYS}
    sizes = {"m": len(found["points"]), "d": model.n_features_in_, "K": arrays["weights_"].size}
    for name, shape in MAP_ARRAYS.items():
        wanted = tuple(sizes[size] for size in shape)
        array = found[name]
        if array.shape != wanted or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"feature_map.{name} is not finite float64 of shape {wanted}")
    told = {name: told[name] for name in ("kind", *MAP_SCALARS)}
    return FeatureMap(**{**told, **found})


def save_state(
    state: State, path: str | os.PathLike[str], about: dict[str, Any] | None = None
) -> None:
    """Write the state of a stream to one .safetensors file, whole or not at all.

    Parameters
    ----------
    state : State
        As ``model.state_`` is after `partial_fit`.
    path : str or path
        Replaced if it exists.
    about : dict, optional
        What JSON holds: where the stream is, say.

    Raises
    ------
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from attnclust import AttentionClustering
    >>> model = AttentionClustering(2, random_state=0).partial_fit(np.eye(4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_state(model.state_, f"{folder}/state.safetensors", {"batches": 1})
    ...     state, about = load_state(f"{folder}/state.safetensors")
    >>> state.n_rows, about
    (4, {'batches': 1})
    """
    document = {
        "format": STATE_FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "class": type(state).__name__,
        "count": state.moments.count,
        "bound": None if np.isinf(state.bound) else state.bound,
        "scalars": {name: getattr(state, name) for name in STATE_SCALARS},
        "about": about or {},
    }
    arrays = {name: getattr(state, name) for name in STATE_ARRAYS}
    arrays |= {"mean": state.moments.mean, "scatter": state.moments.scatter}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    _write(Path(path), json.loads(json.dumps(document, default=_plain)), arrays)


def load_state(path: str | os.PathLike[str]) -> tuple[State, dict[str, Any]]:
    """Read a state that `save_state` wrote, and what was said about it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    state : State
    about : dict

    Raises
    ------
    ModelFileError
        Naming the file: not there, damaged, or no state.
    """
    document, arrays = _read(path, arrays=True, kind=(STATE_FORMAT, State.__name__))
    if document.get("digest") != _digest(document, arrays):
        raise ModelFileError(f"{path}: a damaged file, its digest does not match: begin anew")
    moments = Moments(document["count"], arrays["mean"], arrays["scatter"])
    bound = np.inf if document["bound"] is None else document["bound"]
    state = State(
        moments,
        arrays["rows"],
        arrays["keys"],
        arrays["log_weights"],
        bound,
        **document["scalars"],
    )
    return state, document["about"]


def _read(
    path: str | os.PathLike[str],
    *,
    arrays: bool,
    kind: tuple[str, str] = (FORMAT, AttentionClustering.__name__),
) -> tuple[dict[str, Any], dict[str, Array]]:
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
        found_kind, version = document["format"], document["format_version"]
    except (KeyError, TypeError, ValueError):
        raise ModelFileError(f"{path}: a safetensors file, but no attnclust model") from None
    if (found_kind, document.get("class")) != kind:
        wanted = "an attnclust model" if kind[0] == FORMAT else "the state of a stream"
        raise ModelFileError(f"{path}: holds a {document.get('class')}, not {wanted}")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: written by attnclust {document.get('library_version')} in format {version}, "
            f"newer than this version reads ({FORMAT_VERSION}): update attnclust"
        )
    return document, found
