#!/bin/bash
# Inside the root, without a network. /wheels holds exactly the wheels of requirements.txt, checked by hash.
set -euo pipefail

# The adapter makes this folder in its set-up, unless it is there.
mkdir -p /usr/local/lib/benchsite /installed-agent
gcc -std=c11 -Wall -Wextra -Werror -Os -static -s -Wl,--build-id=none -o /usr/local/lib/benchsite/holder /recipe/base/holder.c

python3 -I - <<'PYTHON'
import pathlib, zipfile
(wheel,) = pathlib.Path("/wheels").glob("uv-*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = (n for n in archive.namelist() if n.endswith(".data/scripts/uv"))
    target = pathlib.Path("/usr/local/bin/uv")
    target.write_bytes(archive.read(name))
    target.chmod(0o755)
PYTHON

# The adapter's own install step, with the locked wheels as its only source.
install_step=(uv tool install mini-swe-agent==2.4.6 --with litellm --with orjson --with fastapi)
PYC_INVALIDATION_MODE=UNCHECKED_HASH UV_NO_INDEX=1 UV_FIND_LINKS=/wheels UV_LINK_MODE=copy "${install_step[@]}"
rm -rf "$UV_CACHE_DIR"

# uv compares its receipt with the options of a later call, which will not name our wheels.
tool=/opt/uv/tools/mini-swe-agent
sed -i '/^find-links = /d;/^no-index = /d' "$tool/uv-receipt.toml"

# uv opens this lock for writing at every call. A device that is always there and always writable makes
# the tool directory work on a read-only root, with no mount over it and nothing to prepare at start.
ln -sfn /dev/null /opt/uv/tools/.lock

# Importing litellm makes many objects that stay. Searching them for garbage is a fifth of the import's time.
# At the end, freezing them spares the interpreter from taking each apart again, which takes seconds.
echo 'import atexit, gc; gc.set_threshold(50_000, 20, 20); atexit.register(gc.freeze)' \
    > "$tool/lib/python3.11/site-packages/benchsite_start.pth"

# The step must now be a no-op.
"${install_step[@]}" 2>&1 | grep -q 'is already installed'
uv tool list 2>/dev/null | grep -q '^mini-swe-agent v2\.4\.6$'
rm -rf "$UV_CACHE_DIR"
