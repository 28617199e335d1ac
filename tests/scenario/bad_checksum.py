"""A frame with one flipped bit, wherever it is, is refused."""
import ringtail
from lib import hostile, wire


def main(case):
    healthy = hostile.Healthy(case)
    good = wire.message("Subscribe", probe=["syscall:getppid:call"], filter="pid == 1")
    body = [case.random.randrange(8 * wire.HEADER_BYTES, 8 * len(good)) for _ in range(4)]
    for bit in [8 * 12, 8 * 16 - 1, *body]:
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with healthy.daemon.connect() as connection:
            connection.greet()
            connection.send(bytes(bad))
            case.say(f"bit {bit} of {8 * len(good)} is flipped")
            hostile.check_refused(case, connection, "bad-checksum", "was changed or cut")
    healthy.check()


ringtail.run(main)
