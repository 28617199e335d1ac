#!/bin/sh
# complete: what may stand next on tracectl's command line; the completions of bash, zsh and fish ask it.
#	usage: complete.sh WORD... : the words after `tracectl`, the last of them begun, perhaps empty
# A line for each, with what it means after a tab; or `@files`: a file. Commands and options come from
# `tracectl --help`, probes and fields from the catalog of the daemon that the words name (`tracectl list`).
# A daemon that does not answer within two seconds has no probes.
set -u
tracectl=${TRACECTL:-tracectl}
names='comm	the name of the thread
probe	as in syscall:openat:call
function	the system call or tracepoint
cpu	a number
pid	a number
ppid	of the parent
tid	of the thread
uid	a number
exe	path of the program
cgroup	path of the control group
container	its id
duration	as in 1ms
ret	what the call returned
error	the call failed'

commands() {
	"$tracectl" --help | sed -n '1,/^Options:/s/^  \([a-z][a-z]*\)\( .*\)/\1\2/p' |
		sed 's/^\([a-z]*\)  *\(.*[])A-Z.]  *\)\{0,1\}\(.*\)/\1	\3/'
}

# options COMMAND: "-p", "--probe", its argument (or -) and its text, a tab between each.
options() {
	# shellcheck disable=SC2086 # no command: no word
	"$tracectl" ${1:+"$1"} --help | awk '/^Options:/ { on = 1; next } /^$/ { on = 0 } on {
		short = "-"; at = 1
		if ($1 ~ /^-.,$/) { short = substr($1, 1, 2); at = 2 }
		line = $0; sub(/^.*--[a-z-]+/, "", line)
		argument = "-"
		if (line ~ /^ [^ ]/) { argument = $(at + 1); sub(/^ [^ ]+/, "", line) }
		sub(/^ +/, "", line)
		print short "\t" $at "\t" argument "\t" line }'
}

# catalog GLOB: of the daemon that the words name; GLOB is quoted for the shell, or empty.
catalog() {
	eval "timeout 2 \"\$tracectl\" $connection list $1" 2>/dev/null
}

probes() {
	catalog '' | sed 's/^\([^( ]*\)(\(.*\)).*/\1	\2/'
}

# Fields of the probes that the words name, or of all.
fields() {
	printf '%s\n' "$names"
	eval "set -- ${wanted:-\"\"}"
	for probe; do
		catalog "${probe:+$(quoted "$probe")}"
	done | sed -n 's/^\([^( ]*\)(\(..*\)).*/\2/p' | tr -d ' ' | tr ',' '\n' | sort -u |
		sed 's/$/	a field/'
}

# begins PREFIX CURRENT: of the lines, those that go on as CURRENT does, with PREFIX before them.
begins() {
	P=$1 C=$2 awk 'BEGIN { prefix = ENVIRON["P"]; current = ENVIRON["C"] }
		index($0, current) == 1 { print prefix $0 }'
}

# in_list CURRENT: as begins, for the last of a list with commas.
in_list() {
	case $1 in
	*,*) begins "${1%,*}," "${1##*,}" ;;
	*) begins '' "$1" ;;
	esac
}

# Of the command's output.
formats() {
	printf '%s\n' text json
	case $command in
	'' | stream | record | read) printf '%s\n' folded csv pprof perfetto kptrace none ;;
	esac
	case $command in
	'' | read) printf '%s\n' sqlite ctf ;;
	esac
}

# What the daemon's triggers have dumped.
dumps() {
	eval "timeout 2 \"\$tracectl\" $connection dumps" 2>/dev/null | awk '{ print $1 }'
}

# argument KIND CURRENT: for an option that takes one.
argument() {
	case $1 in
	FILE) echo @files ;;
	SPEC) probes | begins '' "$2" ;;
	FORMAT) formats | begins '' "$2" ;;
	LIST) { printf '%s\n' kstack ustack strings context fds data
		case $2 in *,*) ;; *) echo none ;; esac; } | in_list "$2" ;;
	NAME,...) fields | in_list "$2" ;;
	EXPR)
		last=$(printf '%s' "$2" | sed 's/.*[^A-Za-z0-9_.]//')
		fields | begins "${2%"$last"}" "$last" ;;
	ADDR) printf '%s\n' unix:/run/ringtail/ringtail.sock tcp: | begins '' "$2" ;;
	*'|'*) printf '%s\n' "$1" | tr '|' '\n' | begins '' "$2" ;;
	esac
}

# operand COMMAND CURRENT
operand() {
	case $1 in
	'') commands | begins '' "$2" ;;
	list) { echo hosts; probes; } | begins '' "$2" ;;
	enable) probes | begins '' "$2" ;;
	disable)
		eval "timeout 2 \"\$tracectl\" $connection probes" 2>/dev/null | awk '{ print $1 }' |
			begins '' "$2" ;;
	dumps)
		case $operand in
		'') printf '%s\t%s\n' get 'fetch one' remove "delete one on the daemon's disk" ;;
		get | remove) dumps ;;
		esac | begins '' "$2" ;;
	read | count | hist | summary) echo @files ;;
	*) "$tracectl" "$1" --help 2>/dev/null | grep -q '^usage:.*\[FILE]' && echo @files ;;
	esac
}

# quoted WORD: as a shell reads it.
quoted() {
	printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

command='' operand='' connection='' wanted='' pending='' known=$(options '')
while [ $# -gt 1 ]; do
	if [ "$pending" ]; then
		case $pending in
		--connect | --ca | --cert | --key | --token-file | --server-name)
			connection="$connection $pending $(quoted "$1")" ;;
		--probe) wanted="$wanted $(quoted "$1")" ;;
		esac
		pending=
	else
		case $1 in
		--insecure) connection="$connection --insecure" ;;
		--*=*) case ${1%%=*} in
			--connect | --ca | --cert | --key | --token-file | --server-name)
				connection="$connection $(quoted "$1")" ;;
			--probe) wanted="$wanted $(quoted "${1#*=}")" ;;
			esac ;;
		-?*) pending=$(printf '%s\n' "$known" | W=$1 awk -F '\t' \
			'($1 == ENVIRON["W"] || $2 == ENVIRON["W"]) && $3 != "-" { print $2 }') ;;
		*) if [ -z "$command" ]; then
			command=$1
			known=$(options "$1")
		else
			operand=$1
		fi ;;
		esac
	fi
	shift
done
current=${1-}
of() { # of OPTION: what it takes
	printf '%s\n' "$known" | W=$1 awk -F '\t' '$2 == ENVIRON["W"] { print $3 }'
}
if [ "$pending" ]; then
	kind=$(of "$pending")
	[ "$pending" = --of ] && kind=EXPR
	argument "$kind" "$current"
elif [ "${current#--*=}" != "$current" ]; then
	argument "$(of "${current%%=*}")" "${current#*=}" | P="${current%%=*}=" awk '{ print ENVIRON["P"] $0 }'
elif [ "${current#-}" != "$current" ]; then
	printf '%s\n' "$known" | awk -F '\t' '{ print $2 "\t" $4; if ($1 != "-") print $1 "\t" $4 }' |
		begins '' "$current"
else
	operand "$command" "$current"
fi
