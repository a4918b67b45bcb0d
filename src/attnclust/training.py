"""Training: heads by gradient descent on prompts, on the sphere or off it.

Each step draws prompts, takes the gradient of risk + rho_t regulariser, projects it on the tangent
space of the unit spheres, steps and renormalises (Riemannian projected gradient descent). The
regulariser breaks the tie between rotations of the heads in their plane; with rho_t -> 0 it leaves no
bias behind. Leading dimensions of heads and prompts are separate runs, trained as one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnclust._typing import FloatArray
from attnclust.manifold import normalize, tangent
from attnclust.objective import REGULARIZERS, reconstruction


@dataclass(frozen=True)
class Training:
    """Trained heads and the way they came.

    Parameters
    ----------
    heads : array of shape (..., H, d)
    n_steps : int
        Steps taken.
    steps : integer array of shape (R,)
        The steps at which the rest was recorded, before the step was taken.
    risk, regularizer, gradient_norm : arrays of shape (R, ...)
        On the prompts of that step; the gradient is the Riemannian one (the plain one off the
        sphere).
    path : array of shape (R, ..., H, d)
        Heads.
    reason : str
        Why it stopped.
    """

    heads: FloatArray
    n_steps: int
    steps: np.ndarray[tuple[int], np.dtype[np.intp]]
    risk: FloatArray
    regularizer: FloatArray
    gradient_norm: FloatArray
    path: FloatArray
    reason: str


def train_heads(
    prompts: Callable[[int], FloatArray],
    heads: FloatArray,
    *,
    temperature: FloatArray | float,
    regularizer: str = "pairwise",
    strength: float = 0.3,
    schedule: Literal["vanishing", "fixed"] = "vanishing",
    step_size: float = 0.05,
    n_steps: int = 3000,
    geometry: Literal["sphere", "euclidean"] = "sphere",
    tol: float = 0.0,
    record_every: int = 100,
) -> Training:
    """Train heads on prompts.

    Parameters
    ----------
    prompts : callable
        Maps the number of a step to tokens of shape (..., B, L, d).
    heads : array of shape (..., H, d)
        The start; unit vectors on the sphere.
    temperature : float or array of shape (...)
        Scale c of the layer. Below c*(L) the centres are stable; half of it is a safe choice.
    regularizer : {"pairwise", "product"}
    strength : float
        First rho.
    schedule : {"vanishing", "fixed"}
        rho_t = rho (1 - t/n_steps)^2, or rho throughout.
    step_size : float
        Times the gradient; for tokens whose centres have about unit length.
    n_steps : int
        Step budget.
    geometry : {"sphere", "euclidean"}
        Projected steps on the product of spheres, or plain ones.
    tol : float
        Stop once the gradient norm of every run is below it.
    record_every : int
        Steps between records; the last step is always recorded.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        If heads are not of unit length on the sphere, or a head runs away.

    Examples
    --------
    >>> import numpy as np
    >>> from attnclust.manifold import random_heads
    >>> rng = np.random.default_rng(0)
    >>> draw = lambda step: np.eye(3)[rng.integers(0, 2, (64, 30))]
    >>> out = train_heads(draw, random_heads(rng, (2, 3)), temperature=1.0, n_steps=1000)
    >>> np.round(np.sort(np.abs(out.heads), axis=1), 2)
    array([[0., 0., 1.],
           [0., 0., 1.]])
    """
    on_sphere = geometry == "sphere"
    if on_sphere and not np.allclose(np.linalg.norm(heads, axis=-1), 1, atol=1e-5):
        raise ValueError("heads must be unit vectors: normalise the start")
    penalty = REGULARIZERS[regularizer]
    records: list[tuple[int, FloatArray, FloatArray, FloatArray, FloatArray]] = []
    reason = f"the budget of {n_steps} steps was spent"
    for step in range(n_steps):
        tokens = prompts(step)
        rho = strength * ((1 - step / n_steps) ** 2 if schedule == "vanishing" else 1.0)
        fit, gradient = reconstruction(tokens, heads, temperature)
        flat = tokens.reshape(*tokens.shape[:-3], -1, tokens.shape[-1])
        u = flat @ np.swapaxes(heads, -1, -2)
        value = penalty.value(u)
        gradient = gradient + rho * penalty.gradient(u, flat)
        if on_sphere:
            gradient = tangent(heads, gradient)
        norm = np.linalg.norm(gradient, axis=(-2, -1))
        still = bool((norm < tol).all())
        if step % record_every == 0 or step == n_steps - 1 or still:
            records.append((step, fit, value, norm, heads))
        if still:
            reason = f"the gradient norm fell below tol={tol:g}"
            break
        heads = heads - step_size * gradient
        if on_sphere:
            heads = normalize(heads)
        elif not np.isfinite(heads).all():
            raise ValueError(f"heads ran away at step {step}: use a smaller step_size")
    taken, *columns = zip(*records, strict=True)
    return Training(
        heads, step if still else step + 1, np.array(taken), *map(np.array, columns), reason
    )
