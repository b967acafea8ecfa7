#!/bin/bash
# Inside the root, without a network. /wheels holds exactly the wheels of requirements.txt (pure Python), checked by hash.
set -euo pipefail

dpkg --purge --force-depends apt libapt-pkg6.0 debian-archive-keyring gpgv
for wheel in /wheels/*.whl; do
    python3 -I -m zipfile -e "$wheel" /usr/local/lib/python3.11/dist-packages
done
mkdir -p /opt/gateway
cp -R /recipe/gateway/__main__.py /recipe/gateway/model_gateway /opt/gateway/
python3 -I -m compileall -q -f --invalidation-mode unchecked-hash /opt/gateway
