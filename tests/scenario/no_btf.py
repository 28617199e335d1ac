"""A kernel without BTF, as far as ringtaild can see: it says so, and what to use instead."""
import os
import shutil

import ringtail


def main(case):
    if os.geteuid() or not shutil.which("unshare"):
        raise ringtail.Skip("hiding /sys/kernel/btf takes root and unshare")
    empty = case.path("empty")
    os.mkdir(empty)
    hide = ["unshare", "-m", "sh", "-c", f'mount --bind {empty} /sys/kernel/btf && exec "$@"', "sh"]
    probe = case.start(*hide, "true").wait()
    if probe.code:
        raise ringtail.Skip(f"mounts are not allowed here: {probe.err.strip()}")
    done = case.refused("--source=bpf", before=hide)
    if "[bpf-no-capability]" in done.err or "[bpf-not" in done.err:
        raise ringtail.Skip("no BPF here at all")
    case.check(done.code == 1 and "[bpf-no-btf]" in done.err and
               "/sys/kernel/btf/vmlinux" in done.err
               and "CONFIG_DEBUG_INFO_BTF" in done.err, "exit 1: which file, which kernel option",
               done.code, done.err)
    done = case.refused("--source=auto", before=hide)
    case.check(done.code == 1 and "[bpf-no-btf]" in done.err, "--source=auto says the same",
               done.err)
    done = case.start(*hide, os.path.join(ringtail.BUILD, "tracectl"), "doctor").wait()
    case.check("BTF" in done.out + done.err, "tracectl doctor tells it too", done.out, done.err)


ringtail.run(main)
