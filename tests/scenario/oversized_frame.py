"""A frame that says it is larger than a client's may be: refused before its body is waited for."""
import ringtail
from lib import hostile, wire

MESSAGE_BYTES_MAX = 64 << 10    # REQUEST_RAW_BYTES_MAX


def main(case):
    healthy = hostile.Healthy(case)
    for body_bytes, raw_bytes in ((MESSAGE_BYTES_MAX + 1, MESSAGE_BYTES_MAX + 1),
                                  (0xFFFFFFFF, 0xFFFFFFFF), (100, MESSAGE_BYTES_MAX + 1),
                                  (100, 0xFFFFFFFF)):
        case.say(f"a header of body_bytes {body_bytes}, raw_bytes {raw_bytes}, and no body")
        with healthy.daemon.connect() as connection:
            connection.greet()
            connection.send(wire.seal("Subscribe", b"", body_bytes=body_bytes, raw_bytes=raw_bytes))
            hostile.check_refused(case, connection, "too-large", "larger than")
    with healthy.daemon.connect() as connection:
        connection.greet()
        connection.send(wire.message("ListRequest", glob="x" * (MESSAGE_BYTES_MAX - 4)))
        error = connection.await_frame("Error").values
        case.check(error["code"] != "too-large" and not error["fatal"],
                   f"one of exactly {MESSAGE_BYTES_MAX} bytes is read, and its glob refused", error)
    healthy.check()


ringtail.run(main)
