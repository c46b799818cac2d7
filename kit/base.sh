# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2154 # $patches, $ours and $top are of kit/lib.sh
#
# What the patches of a project are made for, from its file "base", and whether a source is
# that, or is the same for the patches.  kit/mrfd/bases.py reads the file for Python.
# Call series_of first.

# read_base: set the array $base from the file.
read_base() {
	local file=$patches/base key value
	[ -e "$file" ] || die "${file#"$top"/} is missing: it says what the patches are made for"
	while IFS=' ' read -r key value; do
		case $key in
		'#'* | '') ;;
		package: | version: | suite: | upstream: | tree: | archive: | sha256: | snapshot: | release:)
			base[${key%:}]=$value
			;;
		*) die "${file#"$top"/}: unknown word: $key" "scripts/sources --help has the words" ;;
		esac
	done <"$file"
	for key in package version suite upstream tree archive sha256; do
		[ -n "${base[$key]-}" ] || die "${file#"$top"/} does not say the $key"
	done
}

# edited: print "BLOB PATH" of each file of the source that our patches edit, as it is before
# the first of them.  BLOB is of that patch's index line, and "?" if it has none.
edited() {
	find "$patches" -name '*.patch' -print0 | LC_ALL=C sort -z | xargs -0r cat | awk '
		/^diff --git / { blob = "?"; head = 1 }
		/^@@ / { head = 0 }
		head && /^index [0-9a-f]+\.\./ { split($2, ids, "[.]"); blob = ids[1] }
		head && /^--- a\// { path = substr($0, 7); if (!seen[path]++) print blob, path }'
}

# brought: print each file that our patches add.
brought() { (cd "$ours" 2>/dev/null && find . -type f -printf '%P\n') || true; }

# in_tree GIT: print "BLOB PATH" of each file of the source.
in_tree() { git --git-dir="$1" ls-tree -r --format='%(objectname) %(path)' refs/heads/base; }

# differing GIT: print each file of ours that is not in the source what the patches want it
# to be: edited and another or none there, or added and there already.
differing() {
	local tree
	tree=$(in_tree "$1" | LC_ALL=C sort)
	LC_ALL=C comm -23 <(edited | LC_ALL=C sort) <(echo "$tree") | cut -d' ' -f2-
	LC_ALL=C comm -12 <(brought | LC_ALL=C sort) <(cut -d' ' -f2- <<<"$tree" | LC_ALL=C sort)
}

# judge GIT NAME: print why the source is not the base, and nothing if it is; fail if it is not
# even the same for the patches.
judge() {
	local tree differ count
	tree=$(git --git-dir="$1" rev-parse 'refs/heads/base^{tree}')
	[ "$tree" != "${base[tree]}" ] || return 0
	differ=$(differing "$1")
	count=$(edited | wc -l)
	if [ -z "$differ" ] && [ "$count" != 0 ]; then
		echo "$2 is another tree than the base, and the same for the patches: each of the $count files that they edit is there, with the content that they are made for"
		return 0
	fi
	echo "$2 is not the base: its tree is $tree and not ${base[tree]}; of the files of the patches $(grep -c . <<<"$differ") differ:" \
		"$(head -n 8 <<<"$differ" | paste -sd' ')$([ "$(wc -l <<<"$differ")" -le 8 ] || echo ' ...')"
	return 1
}
