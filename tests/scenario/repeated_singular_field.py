"""A client that sends a field again and again that may come once: a few bytes, which would be merged with all
before them. It is refused before they are unpacked, whatever request it is, and nobody else notices."""
import ringtail
from lib import hostile, protobuf, wire

TIMES = 12_000          # of 4 bytes each: what REQUEST_RAW_BYTES_MAX holds


def main(case):
    healthy = hostile.Healthy(case)
    cursor = protobuf.encode("Cursor", {"epoch": 5})
    for name, number in (("Subscribe", 4), ("Ack", 1)):
        tag = protobuf.put_varint(number << 3 | 2)
        with healthy.daemon.connect() as connection:
            connection.greet()
            connection.send(wire.seal(name, (tag + protobuf.put_varint(len(cursor)) + cursor) * TIMES))
            hostile.check_refused(case, connection, "field-repeated", "comes twice")
    case.check_equal(healthy.daemon.stat()["counters"]["frames_bad"], 2, "both are counted")
    healthy.check()


ringtail.run(main)
