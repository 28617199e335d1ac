# daemon_root: a tree for a virtual machine that has the daemon, the client, Python and the scenarios; for
# scripts to read in. /ringtail/tests/scenario/NAME.py runs there as it does here.

# copy_program ROOT FILE...: with the libraries that it needs.
copy_program() {
	to=$1
	shift
	for file in "$@"; do
		cp --parents -L "$file" $(ldd "$file" | grep -o '/[^ ]*') "$to/" || return 1
	done
}

# build_daemon_root ROOT PROGRAMS SOURCE: where to, where ringtaild and tracectl are, what the daemons
# record with: bpf or kmod. From the project's top directory.
build_daemon_root() {
	root=$1 from=$(realpath "$2")
	rm -rf "$root" && mkdir -p "$root/ringtail/build/tools" "$root/ringtail/tests" "$root/etc" || return
	copy_program "$root" /usr/bin/python3 /usr/bin/zstd "$from/ringtaild" \
		"$from/tracectl" "$from/tools/load" || return
	for module in /usr/lib/python3*/lib-dynload/*.so; do
		case $module in
		*_ssl* | *_sqlite* | *_tkinter* | *_curses* | *readline* | *_test*) ;;
		*) copy_program "$root" "$module" 2>/dev/null ;;
		esac
	done
	(cd / && tar c --exclude=test --exclude=tests --exclude=idlelib --exclude=tkinter \
		--exclude=ensurepip --exclude=lib2to3 --exclude=pydoc_data --exclude=config-* \
		--exclude=dist-packages --exclude=lib-dynload usr/lib/python3.*) | tar x -C "$root" &&
	cp -r tests/scenario "$root/ringtail/tests/" && cp -r proto "$root/ringtail/" &&
	mv "$root$from/ringtaild" "$root$from/tracectl" "$root/ringtail/build/" &&
	mv "$root$from/tools/load" "$root/ringtail/build/tools/" &&
	sed -i "s/source=\"bpf\"/source=\"$3\"/" "$root/ringtail/tests/scenario/ringtail.py" &&
	printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$root/etc/passwd" &&
	printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
}
