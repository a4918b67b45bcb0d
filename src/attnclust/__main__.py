"""`python -m attnclust` is the command `attnclust`."""

from attnclust.cli import main

main()
