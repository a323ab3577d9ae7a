# Shared by the scripts beside it (bash, sourced): where the tree is, and how we speak to the person in front of it.
# shellcheck shell=bash

# The physical path: the sanitizers and meson compare paths, and a symlinked checkout must not rebuild everything.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    c_bold=$'\e[1m' c_dim=$'\e[2m' c_red=$'\e[31m' c_yellow=$'\e[33m' c_green=$'\e[32m' c_off=$'\e[0m'
else
    c_bold='' c_dim='' c_red='' c_yellow='' c_green='' c_off=''
fi

say() { printf '%s==>%s %s\n' "$c_bold$c_green" "$c_off" "$*"; }
note() { printf '    %s%s%s\n' "$c_dim" "$*" "$c_off"; }
warn() { printf '%swarning:%s %s\n' "$c_yellow" "$c_off" "$*" >&2; }
die() {
    printf '%serror:%s %s\n' "$c_red" "$c_off" "$*" >&2
    exit 1
}

# print_help FILE: the comment block at the top of a script is its --help.
print_help() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$1"; }

# need_value OPTION COUNT: an option that takes a value was given one.
need_value() { [ "$2" -ge 2 ] || die "$1 needs a value (see --help)"; }

# logged LOG COMMAND...: the command's output goes to LOG; its status is returned.
logged() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    printf '\n$ %s\n' "$*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null
}

# show_log LOG [LINES]: the end of a log, indented, with its path.
show_log() {
    printf '    --- end of %s\n' "$1" >&2
    tail -n "${2:-15}" "$1" | sed 's/^/    | /' >&2
}
