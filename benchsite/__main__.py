"""`python -m benchsite`: the same command line, where it is installed."""

from benchsite.lib.commandline import main

main()
