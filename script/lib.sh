# What the scripts share: an interpreter, the locked packages, an engine. Sourced, never run.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
DATA=${BENCHSITE_DATA:-$ROOT/.benchsite}
PYTHON=$ROOT/.venv/bin/python

say() { printf '== %s\n' "$*" >&2; }
fail() { printf 'benchsite: %s\n' "$*" >&2; exit 3; }

# run_quietly COMMAND...: without its output, which is shown when it fails; every ten seconds a line with its last words.
run_quietly() {
  local log started=$SECONDS heart code=0
  log=$(mktemp)
  (
    trap 'kill "$!" 2>/dev/null; exit' TERM
    while sleep 10 & wait "$!" && kill -0 "$$" 2>/dev/null; do
      say "  $((SECONDS - started)) s: $(tail -n 1 "$log" | tr -cd '[:print:]' | cut -c1-100)"
    done
  ) &
  heart=$!
  "$@" >"$log" 2>&1 || code=$?
  kill "$heart" 2>/dev/null && wait "$heart" 2>/dev/null || :
  [ "$code" = 0 ] || cat "$log" >&2
  rm -f "$log"
  return "$code"
}

is_new_enough() { "$1" -I -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }

# Prints the first Python 3.12+ of PATH, pyenv, uv.
find_python() {
  local candidate
  for candidate in python3.13 python3.12 python3.14 python3 python; do
    candidate=$(command -v "$candidate" 2>/dev/null) || continue
    is_new_enough "$candidate" && { "$candidate" -I -c 'import sys; print(sys.executable)'; return; }
  done
  for candidate in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python /opt/python/3.1[2-9]*/bin/python3; do
    [ -x "$candidate" ] && is_new_enough "$candidate" && { printf '%s\n' "$candidate"; return; }
  done
  if command -v uv >/dev/null 2>&1; then
    candidate=$(uv python find '>=3.12' 2>/dev/null || true)
    [ -n "$candidate" ] && is_new_enough "$candidate" && { printf '%s\n' "$candidate"; return; }
  fi
  fail "Python 3.12 or newer was not found in PATH, pyenv or uv. Install one (for example: pyenv install 3.12), then run this again."
}

# ensure_environment main|dev: .venv with exactly the locked packages; does nothing when they are there.
ensure_environment() {
  local lock=requirements/$1.txt stamp python
  stamp=.venv/.locked-$(sha256sum <"$lock" | cut -c1-16)
  [ -f "$stamp" ] && [ -x "$PYTHON" ] && "$PYTHON" -c '' 2>/dev/null && return
  python=$(find_python)
  say "Installing the locked packages of $lock into .venv with $("$python" --version)"
  [ -x "$PYTHON" ] && "$PYTHON" -m pip --version >/dev/null 2>&1 || { rm -rf .venv; "$python" -m venv .venv; }
  run_quietly "$PYTHON" -m pip install --no-color --disable-pip-version-check --require-hashes -r "$lock"
  touch "$stamp"
}

# Whether the site could listen there; asked before minutes of set-up, not after them.
port_is_free() { "$PYTHON" -c 'import socket, sys; socket.create_server(("127.0.0.1", int(sys.argv[1])))' "$1" 2>/dev/null; }

on_debian_as_root() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; }

# ensure_packages command:package...: Debian packages whose command is missing.
ensure_packages() {
  local missing=() pair
  for pair in "$@"; do command -v "${pair%%:*}" >/dev/null 2>&1 || [ -x "/usr/sbin/${pair%%:*}" ] || missing+=("${pair#*:}"); done
  [ ${#missing[@]} -eq 0 ] && return
  on_debian_as_root || fail "missing: ${missing[*]}. Install them with your system's package manager, then run this again."
  say "Installing ${missing[*]}"
  run_quietly apt-get update
  run_quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# PostgreSQL's server programs, which Debian keeps out of PATH.
has_postgresql() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null 2>&1; }

# await_engine SECONDS: whether it answers within that time.
await_engine() { local end=$((SECONDS + $1)); until engine_answers; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.5; done; }

engine_answers() { "$PYTHON" -c 'import docker; docker.from_env(timeout=5).ping()' >/dev/null 2>&1; }

# is_process PIDFILE NAME: whether the file's pid is a live process of that program.
is_process() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && [ "$(basename "$(readlink "/proc/$pid/exe" || true)")" = "$2" ]
}

# An engine that answers: the one there is, else Docker Engine installed and started (root on Debian or Ubuntu only).
ensure_engine() {
  engine_answers && return
  [ -n "${DOCKER_HOST:-}" ] && fail "DOCKER_HOST is set to $DOCKER_HOST, but no engine answers there. Start it or unset DOCKER_HOST."
  on_debian_as_root || fail "no Docker Engine answers. Install Docker Engine 20.10 or newer, start it, and give this user access to its socket."
  ensure_packages dockerd:docker.io iptables:iptables
  say "Starting Docker Engine (log: $DATA/dockerd.log); it is left running"
  mkdir -p "$DATA"
  if [ -d /run/systemd/system ]; then
    systemctl start docker
  else
    # A pid file whose process is gone, or only waits to be reaped, would keep the new daemon from starting.
    is_process /var/run/docker.pid dockerd || rm -f /var/run/docker.pid
    is_process /var/run/docker/containerd/containerd.pid containerd || rm -f /var/run/docker/containerd/containerd.pid
    setsid dockerd >"$DATA/dockerd.log" 2>&1 </dev/null &
  fi
  for _ in $(seq 6); do await_engine 10 && return; say "  It does not answer yet"; done
  tail -n 20 "$DATA/dockerd.log" >&2 || true
  fail "Docker Engine was started but does not answer; see $DATA/dockerd.log."
}
