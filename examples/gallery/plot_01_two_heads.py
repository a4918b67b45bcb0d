r"""
Two heads find two centres
==========================

Two linear attention heads start at random on the sphere and are trained on unlabelled prompts of a
mixture of two orthonormal centres. They see no label, and still each ends at one centre, up to
sign.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation

from attnclust.manifold import random_heads
from attnclust.mixture import Mixture, sample_prompts
from attnclust.plotting import COLOURS
from attnclust.theory import optimal_temperature
from attnclust.training import train_heads

rng = np.random.default_rng(2)
centres = np.eye(3)[:2]
mixture = Mixture.equal(centres, noise_variance=0.04)

training = train_heads(
    lambda step: sample_prompts(mixture, 64, 30, rng)[0],
    random_heads(rng, (2, 3)),
    temperature=optimal_temperature(mixture, centres, length=30) / 2,
    strength=0.3,
    n_steps=2000,
    record=40,
)
print("|cos| of heads and centres:", training.history.alignment(centres)[-1].round(4))

# %%
# The path of each head over the sphere (solid), and of its negative, which is the same head
# (dotted). Black dots are the centres.

path = training.history.heads  # (records, heads, 3)
figure = plt.figure(figsize=(6, 6))
ax = figure.add_subplot(projection="3d")
ax.set_box_aspect((1, 1, 1))
ax.set_axis_off()
ax.view_init(elev=35, azim=35)
turn, tilt = np.mgrid[0 : 2 * np.pi : 25j, 0 : np.pi : 13j]
ball = np.cos(turn) * np.sin(tilt), np.sin(turn) * np.sin(tilt), np.cos(tilt)
ax.plot_wireframe(*ball, color="#DDDDDD", linewidth=0.5)
for centre in (*centres, *-centres):
    ax.scatter(*centre, color="black", s=40)
lines = [
    ax.plot([], [], [], color=colour, linestyle=style, linewidth=2)[0]
    for colour in (COLOURS[0], COLOURS[3])
    for style in ("-", ":")
]


def draw(frame):
    """Paths up to a record."""
    for place, line in enumerate(lines):
        head, side = place // 2, 1 - 2 * (place % 2)
        line.set_data_3d(*(side * path[: frame + 1, head]).T)
    return lines


animation = FuncAnimation(figure, draw, frames=len(path), interval=80)
