# daemon_root: a tree for a virtual machine that has the daemon, the client, Python and the scenarios; for
# scripts to read in. /ringtail/tests/scenario/NAME.py runs there as it does here.

# copy_program ROOT FILE...: with the libraries that it needs.
copy_program() {
	to=$1
	shift
	for file in "$@"; do
		# shellcheck disable=SC2046 # a word for each library
		cp --parents -L "$file" $(ldd "$file" | grep -o '/[^ ]*') "$to/" || return 1
	done
}

# copy_python ROOT: this machine's.
copy_python() {
	copy_program "$1" /usr/bin/python3 /usr/bin/zstd || return
	for module in /usr/lib/python3*/lib-dynload/*.so; do
		case $module in
		*_ssl* | *_sqlite* | *_tkinter* | *_curses* | *readline* | *_test*) ;;
		*) copy_program "$1" "$module" 2>/dev/null ;;
		esac
	done
	(cd / && tar c --exclude=test --exclude=tests --exclude=idlelib --exclude=tkinter \
		--exclude=ensurepip --exclude=lib2to3 --exclude=pydoc_data --exclude=config-* \
		--exclude=dist-packages --exclude=lib-dynload usr/lib/python3.*) | tar x -C "$1"
}

# copy_tree ROOT TREE: what running takes of another processor's libraries and Python.
copy_tree() {
	(cd "$2" && tar c --exclude=./usr/include --exclude=*.a --exclude=./usr/share --exclude=./usr/lib/gcc \
		--exclude=pkgconfig --exclude=__pycache__ --exclude=*/gconv .) | tar x -C "$1"
}

# build_daemon_root ROOT PROGRAMS SOURCE [TREE]: where to, where ringtaild and tracectl are, what the daemons
# record with: bpf or kmod; a tree of another processor. From the project's top directory.
build_daemon_root() {
	root=$1 from=$(realpath "$2")
	rm -rf "$root" && mkdir -p "$root/ringtail/build/tools" "$root/ringtail/tests" "$root/etc" || return
	if [ "${4:-}" ]; then
		copy_tree "$root" "$4" &&
			cp "$from/ringtaild" "$from/tracectl" "$root/ringtail/build/" &&
			cp "$from/tools/load" "$from/tools/busy" "$root/ringtail/build/tools/" || return
	else
		copy_python "$root" &&
			copy_program "$root" "$from/ringtaild" "$from/tracectl" "$from/tools/load" "$from/tools/busy" &&
			mv "$root$from/ringtaild" "$root$from/tracectl" "$root/ringtail/build/" &&
			mv "$root$from/tools/load" "$root$from/tools/busy" "$root/ringtail/build/tools/" || return
	fi
	cp -r tests/scenario "$root/ringtail/tests/" && cp -r proto "$root/ringtail/" &&
	sed -i "s/source=\"bpf\"/source=\"$3\"/" "$root/ringtail/tests/scenario/ringtail.py" &&
	find "$root/ringtail" -name __pycache__ -prune -exec rm -rf {} + &&
	python3 -m compileall -q "$root/ringtail/tests/scenario" &&		# once, not in each case
	printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$root/etc/passwd" &&
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
}
