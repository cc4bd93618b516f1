#!/usr/bin/env bash
# Real hosts on the bridge: each gets one entry from `mcpd install`, and then has to start it, shake hands and list
# the tools; at last the entry is taken out again. Opt-in, since the hosts from npm are 1.5 GB. Nobody signs in, and no model is called.
#
#   tests/hosts/run.sh [HOST…]
#
# MCPD is the mcpd to try (default: that of the checkout's venv); MCPD_HOSTS_CACHE a folder where the hosts stay.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mcpd=$(realpath -s "${MCPD:-$here/../../.venv/bin/mcpd}")
declare -A packages=(
    [claude-code]=@anthropic-ai/claude-code@2.1.332
    [codex]=@openai/codex@0.171.0
    [gemini]=@google/gemini-cli@0.61.0
    [opencode]=opencode-ai@1.18.33
    [grok]=@xai-official/grok@1.0.41
)
hosts=("$@")
[ $# -gt 0 ] || hosts=(claude-code codex gemini opencode grok)

work=$(mktemp -d /tmp/mcpd-hosts.XXXXXX)
cache=${MCPD_HOSTS_CACHE:-$work/npm}
# What the host, and thereby the bridge and the daemon, are left with: nothing that leads to the user's own.
alone() { env -i PATH="$cache/$host/node_modules/.bin:$PATH" HOME="$work/$host" LANG=C.UTF-8 TERM=dumb "$@"; }
leave() {
    for host in "${hosts[@]}"; do alone "$mcpd" down --no-autostart >/dev/null 2>&1; done
    rm -rf "$work"
}
trap leave EXIT

failed=0
for host in "${hosts[@]}"; do
    package=${packages[$host]:?there is no host $host}
    mkdir -p "$cache/$host" "$work/$host/project"
    if [ ! -d "$cache/$host/node_modules/.bin" ]; then
        (cd "$cache/$host" && echo '{}' >package.json &&
            timeout 600 npm install --no-audit --no-fund --loglevel=error "$package") >"$work/$host/npm.log" 2>&1 ||
            { echo "failed $host: npm install $package: $(tail -1 "$work/$host/npm.log")"; failed=1; continue; }
    fi
    cd "$work/$host/project"
    if ! said=$(alone timeout 120 "$mcpd" install "$host" --server demo --yes 2>&1); then
        echo "failed $host: mcpd install: $(tail -1 <<<"$said")"
        failed=1
        continue
    fi
    alone timeout 180 python3 "$here/look.py" "$host" || failed=1
    if ! said=$(alone timeout 120 "$mcpd" uninstall "$host" --yes 2>&1); then
        echo "failed $host: mcpd uninstall: $(tail -1 <<<"$said")"
        failed=1
    fi
done
exit $failed
