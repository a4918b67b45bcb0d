"""Training: heads by gradient descent on fresh prompts, on the product of unit spheres or off it.

    g_t         gradient of R + rho_t r at the prompts of step t  `objective`
    riemannian  mu <- retract(mu, -eta tangent(mu, g_t))          `manifold`
    euclidean   mu <- mu - eta g_t
    adam        mu <- mu - eta m_t / (sqrt(v_t) + 1e-8), m and v running means of g and g^2

The regulariser tells apart rotations of the heads within their plane, which R cannot; as
rho_t = rho (1 - t/T)^2 falls to zero, so does the bias it brings. Maulen-Soto, Boyer and Marion,
Attention-based clustering, arXiv 2505.13112; Kingma and Ba, Adam, arXiv 1412.6980.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from attnclust._typing import FloatArray, IntArray
from attnclust.checks import check_choice, check_integer, check_number
from attnclust.manifold import alignment, retract, tangent
from attnclust.objective import REGULARIZERS, reconstruction


@dataclass(frozen=True)
class History:
    """What was recorded at some steps, before the step was taken, on the prompts of that step.

    Parameters
    ----------
    steps : integer array of shape (T,)
    risk, regularizer, gradient_norm : arrays of shape (T, ...)
        R, r (without rho), and the norm of the gradient that the step follows.
    heads : array of shape (T, ..., H, d)
    """

    steps: IntArray
    risk: FloatArray
    regularizer: FloatArray
    gradient_norm: FloatArray
    heads: FloatArray

    def alignment(self, centroids: FloatArray) -> FloatArray:
        """|cos| of each head and its centre at each record, where the truth is known.

        Parameters
        ----------
        centroids : array of shape (..., K, d)
            The truth of each run.

        Returns
        -------
        array of shape (T, ..., min(H, K))
        """
        return alignment(self.heads, centroids)


@dataclass(frozen=True)
class Training:
    """Trained heads and how they were reached.

    Parameters
    ----------
    heads : array of shape (..., H, d)
    n_steps : int
        Steps taken.
    history : History
    reason : str
        Why training stopped.
    """

    heads: FloatArray
    n_steps: int
    history: History
    reason: str


def train_heads(
    prompts: Callable[[int], FloatArray],
    heads: FloatArray,
    *,
    temperature: npt.ArrayLike,
    regularizer: str = "pairwise",
    strength: npt.ArrayLike = 0.3,
    schedule: Literal["vanishing", "fixed"] = "vanishing",
    step_size: float = 0.05,
    n_steps: int = 3000,
    descent: Literal["riemannian", "euclidean", "adam"] = "riemannian",
    tol: float = 0.0,
    record: int | Collection[int] = 100,
) -> Training:
    """Train heads on prompts; leading dimensions are runs that advance together.

    Parameters
    ----------
    prompts : callable
        Maps the step's number to tokens of shape (..., B, L, d), of about unit length. Products run
        in their precision, heads keep the precision of the start.
    heads : array of shape (..., H, d)
        The start.
    temperature : float or array of shape (...)
        Scale c. Below c*(L) the centres are stable; half of it is a safe choice.
    regularizer : {"pairwise", "product"}
    strength : float or array of shape (...)
        rho >= 0.
    schedule : {"vanishing", "fixed"}
        rho_t = rho (1 - t/n_steps)^2, or rho throughout.
    step_size : float
        eta.
    n_steps : int
        Step budget.
    descent : {"riemannian", "euclidean", "adam"}
        The first keeps heads on the sphere, the others let them have any length.
    tol : float
        Stop when the gradient norm of every run is below it; prompts are samples, so the norm does
        not fall to zero unless they are noiseless.
    record : int or collection of int
        Steps between records, or the steps to record; the last step always is.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        For heads that are not unit vectors of the tokens' dimension or more than it has, prompts
        of one token, an unknown choice, or a gradient that is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> start = np.array([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8]])
    >>> draw = lambda step: np.eye(3)[rng.integers(0, 2, (16, 30))]
    >>> result = train_heads(draw, start, temperature=1.0, step_size=0.2)
    >>> np.abs(result.heads).round(2)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    >>> result.reason
    'step budget spent (3000)'
    """
    check_choice("regularizer", regularizer, tuple(REGULARIZERS))
    check_choice("schedule", schedule, ("vanishing", "fixed"))
    check_choice("descent", descent, ("riemannian", "euclidean", "adam"))
    check_integer("n_steps", n_steps, 1)
    if not isinstance(record, Collection):
        check_integer("record", record, 1)
        record = range(0, n_steps, record)
    check_number("step_size", step_size, 0)
    check_number("tol", tol, 0)
    if not (np.asarray(strength) >= 0).all():
        raise ValueError(f"strength must not be negative, got {strength!r}")
    on_sphere = descent == "riemannian"
    if on_sphere and not np.allclose(np.linalg.norm(heads, axis=-1), 1, atol=1e-5):
        raise ValueError("heads must be unit vectors on the sphere: normalise the start")

    n_heads, dim = heads.shape[-2:]
    if n_heads > dim:
        raise ValueError(f"{n_heads} heads cannot each have a direction in dimension {dim}")
    rho = np.asarray(strength)[..., None, None]
    penalty = REGULARIZERS[regularizer]
    first, second = np.zeros_like(heads), np.zeros_like(heads)
    records: list[tuple[FloatArray, ...]] = []
    reason = f"step budget spent ({n_steps})"
    for step in range(n_steps):
        tokens = prompts(step)
        if tokens.shape[-1] != dim:
            raise ValueError(
                f"heads of dimension {dim} cannot attend to tokens of dimension {tokens.shape[-1]}"
            )
        if tokens.shape[-2] < 2:
            raise ValueError(
                "a prompt of one token is attended to by itself alone: draw longer ones"
            )
        now = heads.astype(tokens.dtype, copy=False)
        rows = tokens.reshape(*tokens.shape[:-3], -1, tokens.shape[-1])
        fall = (1 - step / n_steps) ** 2 if schedule == "vanishing" else 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            u = rows @ np.swapaxes(now, -1, -2)
            risk, gradient = reconstruction(tokens, now, temperature)
            gradient = (gradient + fall * rho * penalty.gradient(u, rows)).astype(heads.dtype)
            if on_sphere:
                gradient = tangent(heads, gradient)
            norm = np.linalg.norm(gradient, axis=(-2, -1))
        if not np.isfinite(norm).all():
            raise ValueError(
                f"the gradient is not finite at step {step}: scale the tokens to unit length or "
                "use a smaller step_size"
            )
        still = bool((norm < tol).all())
        if step in record or step == n_steps - 1 or still:
            records.append((np.asarray(step), risk, penalty.value(u), norm, heads))
        if still:
            reason = f"gradient norm below tol={tol:g}"
            break
        if descent == "adam":
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            root = np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8
            gradient = first / (1 - 0.9 ** (step + 1)) / root
        move = -step_size * gradient
        heads = retract(heads, move) if on_sphere else heads + move
    history = History(*(np.array(column) for column in zip(*records, strict=True)))
    return Training(heads, step if still else n_steps, history, reason)
