# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034 # programs use $failed
#
# Run a program in two guests, guest 0 as the server and guest 1 as the client.
#
# A line "case NAME: ok" or "case NAME: failed" is printed for each; before "failed" goes
# what the program said the last time.  Each program has a port of its own, so that a client
# never meets the server of another program.  Whether one has failed is in $failed.

[ "${MRFD_GUESTS-}" = 2 ] || {
	echo "${0##*/} is for two guests: scripts/boot --guests 2" >&2
	exit 2
}
patience=${MRFD_PATIENCE:-3} # times what an idle machine may need
patience=${patience%.*}
port=20000
failed=0
# A line with which a program of libfabric says that it has compared all messages.
result=''

has_result() { grep -qE "$result" "$1"; }

# until_result COMMAND...: a program of libfabric closes its endpoint when it has all that it
# wants.  The other end may then read that its receives are flushed, and fail.  Over rxm it may
# also wait for ever for the last message: a completion that nobody has read goes with the queue
# pair, the provider of verbs reports it as flushed, and rxm drops a flushed receive without a
# word.  An end that has printed its result has compared all messages, so over rxm it gets some
# seconds more, and how it ends does not count.
until_result() {
	local out pid status end=''
	out=$(mktemp)
	timeout $((40 * patience)) stdbuf -oL "$@" >"$out" 2>&1 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		if [ -n "$end" ]; then
			[ "$SECONDS" -lt "$end" ] || break
		elif [[ $* = *ofi_rxm* ]] && has_result "$out"; then
			end=$((SECONDS + 5 * patience))
		fi
		sleep 0.1
	done
	kill "$pid" 2>/dev/null
	wait "$pid"
	status=$?
	cat "$out"
	if has_result "$out"; then
		[ -z "$end" ] && ! grep -q 'Work Request Flushed' "$out" || status=0
	fi
	return "$status"
}

# run NAME SERVER CLIENT COMMAND...: SERVER and CLIENT are the last words of that end, with
# PORT in place of the port.
run() {
	local name=$1 ends=("$2" "$3") words said status tries=0 began=$SECONDS
	port=$((port + 10))
	# shellcheck disable=SC2206 # an end is several words
	words=("${@:4}" ${ends[MRFD_GUEST]//PORT/$port})
	# A client that comes before its server tries again, by the same clock as until_result(), which
	# may hold the server up; one whose server has ended fails.
	while :; do
		if [ -n "$result" ]; then
			said=$(until_result "${words[@]}")
		else
			said=$(timeout $((40 * patience)) "${words[@]}" 2>&1)
		fi
		status=$?
		tries=$((tries + 1))
		if [ "$status" = 0 ] || [ "$MRFD_GUEST" = 0 ]; then break; fi
		[ $((SECONDS - began)) -lt $((20 * patience)) ] || break
		sleep 0.3
	done
	if [ "$status" = 0 ]; then
		echo "case $name: ok"
	else
		echo "after $((SECONDS - began)) s and $tries tries: $said"
		echo "case $name: failed, status $status: ${words[*]}"
		failed=1
	fi
}
