#!/usr/bin/python3
"""summary.py CLIENTS.jsonl SESSIONS.jsonl: one table of what ran where, from what the shim and the server counted."""
import json
import sys


def read_lines(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def human(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def main():
    clients = read_lines(sys.argv[1])
    sessions = {entry["session"]: entry for entry in read_lines(sys.argv[2])}
    head = ("program", "tenant", "pid", "worker", "transport", "calls", "round trips", "sent", "received", "GPU time", "peak memory")
    rows = []
    for client in clients:
        server = sessions.get(client["session"], {})
        rows.append((
            client["program"].rsplit("/", 1)[-1], server.get("tenant", "?"), str(client["pid"]), str(client["worker_pid"]),
            client["transport"], str(client["calls"]), str(client["round_trips"]), human(client["bytes_sent"]),
            human(client["bytes_received"]), f'{server.get("gpu_us", 0) / 1000:.2f} ms', human(server.get("memory_peak_bytes", 0))))
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    missing = [client["program"] for client in clients if client["session"] not in sessions]
    if missing:
        print("no server record for: " + ", ".join(missing), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
