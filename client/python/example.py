"""A program with a probe: it makes TURNS events, as `python3 example.py TURNS` asks, and says whether it is attached."""
import sys

import ringtail_probe

turn_done = ringtail_probe.probe("python_example", "turn_done", "turn %d of %d: %s", turn=int, turns=int, text=str)


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print("attached" if ringtail_probe.attach() else "alone", flush=True)
    sys.stdin.readline()
    for turn in range(turns):
        turn_done(turn, turns, f"text of turn {turn}")


main()
