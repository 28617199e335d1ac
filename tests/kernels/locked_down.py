"""A kernel that was booted with lockdown=confidentiality: the start and doctor name it, and what is no way around it.
guest.sh runs this among the scenarios of such a machine."""
import os
import subprocess

import ringtail

MODES = "/sys/kernel/security/lockdown"


def doctor(case):
    done = case.start(os.path.join(ringtail.BUILD, "tracectl"), "doctor").wait()
    return done.code, done.out + done.err


def check_start(case, doing):
    for source in ("bpf", "auto"):
        done = case.refused(f"--source={source}")
        case.check(done.code == 1 and "[bpf-locked-down]" in done.err and "lockdown=integrity" in done.err,
                   f"{doing}, --source={source}: the start names lockdown, and the remedy", done.code, done.err)
        case.check("was not tried on" not in done.err, "and does not send the user to the module", done.err)


def main(case):
    with open(MODES) as file:
        case.check("[confidentiality]" in file.read(), "the kernel is locked down")
    check_start(case, "with securityfs")
    code, said = doctor(case)
    case.check(code == 1 and "FAIL  lockdown" in said and "lockdown=integrity" in said, "doctor fails, and names it", said)
    subprocess.run(["umount", "/sys/kernel/security"], check=True)
    check_start(case, "without securityfs")
    code, said = doctor(case)
    case.check("warn  lockdown" in said and "not locked down" not in said, "doctor says that it cannot tell", said)


ringtail.run(main)
