#!/bin/sh
# Isolated: no site packages, no environment variables, no user folder, and never from the artifacts' folder.
cd /tests || exit 70
exec python3 -I -S -B /tests/verify.py
