#!/bin/bash
# The last step of every image: what all of them have in common. Runs inside the root, without a network.
set -euo pipefail

rm -rf /usr/share/{doc,man,info,locale,lintian,bug} /var/lib/apt/lists /var/cache/{apt,debconf,ldconfig} /var/log/* /tmp/* /root/.cache
rm -rf /etc/machine-id /etc/apt/sources.list /etc/resolv.conf /etc/hostname /debootstrap
: > /etc/resolv.conf

# By this a worker proves that a container of the image sees the image's own files, and not its host's.
install -D -m 0444 /recipe/mark /usr/local/lib/benchsite/mark

# Nothing in these containers needs to gain privileges.
find / -xdev -perm /6000 -type f -exec chmod a-s {} +

# At run time these are sized tmpfs mounts over a read-only root.
mkdir -p /app /tests /logs/agent /logs/verifier /logs/artifacts /tmp /root
chmod 1777 /tmp

# Bytecode that no file time can invalidate: the same bytes on every machine, and never compiled again.
python3 -I -m compileall -q -f --invalidation-mode unchecked-hash \
    /usr/lib/python3.11 /usr/lib/python3 /usr/local/lib/python3.11
