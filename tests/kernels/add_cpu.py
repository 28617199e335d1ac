#!/usr/bin/env python3
"""add_cpu: gives a virtual machine one CPU more, each time that its console says @add-cpu.

	usage: tests/kernels/add_cpu.py CONSOLE SOCKET		SOCKET: of the machine's QMP; ends with the machine
"""
import json
import socket
import sys
import time


class Machine:
    """qemu, by its QMP (docs/interop/qmp-spec of qemu): a line of JSON each way."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines = self.socket.makefile("rw")
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        print(json.dumps({"execute": command, "arguments": arguments}), file=self.lines, flush=True)
        for line in self.lines:
            answer = json.loads(line)
            if "error" in answer:
                sys.exit(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
        sys.exit(0)             # the machine has ended

    def add_cpu(self):
        slot = next(slot for slot in self.ask("query-hotpluggable-cpus") if "qom-path" not in slot)
        self.ask("device_add", driver=slot["type"], id="added", **slot["props"])


def main():
    console, path = sys.argv[1:]
    added = 0
    machine = None
    while True:
        time.sleep(0.2)
        with open(console, "rb") as file:
            asked = file.read().count(b"@add-cpu")      # perhaps behind what its kernel has just said
        while added < asked:
            machine = machine or Machine(path)
            machine.add_cpu()
            added += 1


if __name__ == "__main__":
    main()
