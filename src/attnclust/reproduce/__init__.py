"""The claims of the method, each an experiment with a picture and a verdict.

A claim is a module c01 to c25: its docstring is the statement, `measure` returns a tidy data frame,
`judge` computes findings from that frame, `draw` a picture and `explain` what is seen. Nothing but
the frame passes between them.
"""

from attnclust.reproduce.claims import CLAIM_IDS, Claim, Finding, load_claim, measure

__all__ = ["CLAIM_IDS", "Claim", "Finding", "load_claim", "measure"]
