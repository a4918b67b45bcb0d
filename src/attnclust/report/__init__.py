"""One page of a fit for people: map, clusters, spectrum and labels, in a file that opens anywhere.

`page.py` writes it, from the data that its script reads (`data.py`) and the spectrum
(`eigenvalues.py`); `report.js` and `report.css` make it live.
"""

from attnclust.report.page import write_report

__all__ = ["write_report"]
