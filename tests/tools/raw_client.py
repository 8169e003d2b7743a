#!/usr/bin/python3
"""raw_client.py HOST:PORT TOKEN_FILE: opens a session of tenant "a" by hand, prints "ready", and for every line on stdin asks the
server over the life line whether it is there: "alive". The line "reset" resets its connections."""
import os
import re
import socket
import struct
import sys


def field(tag, data):
    return struct.pack("<HHI", tag, 0, len(data)) + data


def frame(kind, *fields):
    body = struct.pack("<HH", kind, 0) + b"".join(fields)
    return b"SLCE" + struct.pack("<I", 8 + len(body)) + body


def receive(connection):
    """Type of the next frame, and its fields by tag (the last of each)."""
    def exactly(count):
        data = b""
        while len(data) < count:
            piece = connection.recv(count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
    body = exactly(struct.unpack("<I", exactly(8)[4:])[0] - 8)
    fields, at = {}, 4
    while at < len(body):
        tag, _, length = struct.unpack_from("<HHI", body, at)
        fields[tag] = body[at + 8:at + 8 + length]
        at += 8 + length
    return struct.unpack_from("<H", body)[0], fields


def constant(path, name):
    with open(path, encoding="utf-8") as text:
        return int(re.search(rf"{name} = (0x[0-9a-fA-F]+|\d+)", text.read()).group(1), 0)


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    with open(sys.argv[2], encoding="utf-8") as text:
        token = text.read().strip()
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    version = constant(f"{root}/protocol/wire.h", "kProtocolVersion")
    opcodes = constant(f"{os.environ['SLUICE_BUILD']}/gen/protocol/opcodes.h", "kOpcodeTableHash")
    life_line = socket.create_connection((host, int(port)))
    life_line.sendall(frame(1, field(1, struct.pack("<I", version)), field(2, struct.pack("<Q", opcodes)), field(4, b"a"),
                            field(5, token.encode()), field(6, struct.pack("<i", 13000)), field(7, struct.pack("<i", os.getpid()))))
    kind, welcome = receive(life_line)
    if kind != 2:
        sys.exit(f"refused: {welcome}")
    data = socket.create_connection((host, int(port)))
    data.sendall(frame(4, field(1, welcome[4])))
    receive(data)
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        if line == "reset\n":
            for connection in (life_line, data):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
            return
        life_line.sendall(frame(6, field(1, struct.pack("<Q", number))))
        kind, pong = receive(life_line)
        print("alive" if (kind, pong[1]) == (7, struct.pack("<Q", number)) else f"frame {kind}", flush=True)


if __name__ == "__main__":
    main()
