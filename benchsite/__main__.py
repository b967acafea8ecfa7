"""`python -m benchsite`: the same command line, where it is installed."""

from benchsite.commandline import main

main()
