"""batch: a Batch's columns undone, as docs/protocol.md says, in the plainest way there is."""

U64 = (1 << 64) - 1
DURATION = 3    # FieldType


def with_frames(attached, batch):
    """An attachment that names a stack of the batch's, with that stack's addresses."""
    if not attached["stack"]:
        return attached
    frames, address = [], 0
    for difference in batch["stack"][attached["stack"] - 1]["frame"]:
        address = address + difference & U64
        frames.append(address)
    return {**attached, "frame": frames}


def events(batch, probes):
    """The events of a decoded Batch, in order, as dictionaries. probes: the catalog's, by id."""
    value, gap_low, gap_more = iter(batch["value"]), iter(batch["gap_low"]), iter(batch["gap_more"])
    skipped = batch["event_skipped"] or [0] * batch["events"]
    thread_end = [batch["time_ns"]] * len(batch["thread"])
    last, time_ns, seq, losses = {}, batch["time_ns"], batch["first_seq"], list(batch["loss"])
    for i in range(batch["events"]):
        while losses and losses[0]["before"] == i:
            loss = losses.pop(0)
            seq += loss["skipped"] + loss["count"]
        seq += skipped[i]
        probe = probes[batch["probe"][batch["event_probe"][i]]]
        thread = batch["event_thread"][i]
        fields = last.setdefault((thread, probe["id"]), [0] * len(probe["field"]))
        has_duration = bool(fields) and probe["field"][0]["type"] == DURATION
        high = batch["time_high"][i]
        span = (high >> 3) << 7 | batch["span_low"][i]
        if has_duration:
            gap = high & 7
            if gap == 7:
                gap += next(gap_more)
            start = thread_end[thread] + (gap << 7 | next(gap_low)) & U64
            end = max(start, time_ns) + span & U64
            fields[0] = end - start & U64
            thread_end[thread] = end
        else:
            end = time_ns + span & U64
        for bit in range(len(fields) - has_duration):
            if batch["changed"][i] >> bit & 1:
                fields[bit + has_duration] = fields[bit + has_duration] + next(value) & U64
        time_ns = end
        yield {"seq": seq, "time": end, "cpu": batch["cpu"], "probe": probe,
               "thread": batch["thread"][thread], "fields": list(fields),
               "attachment": [with_frames(a, batch) for a in batch["attachment"] if a["event"] == i]}
        seq += 1
