#!/usr/bin/python3
"""relay.py HOST:PORT: passes connections on; prints its own address, and at SIGTERM all that clients have sent."""
import signal
import socket
import sys
import threading

seen = []


def pump(source, sink, keep):
    try:
        while piece := source.recv(65536):
            if keep:
                seen.append(piece)
            sink.sendall(piece)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def finish(*_):
    sys.stdout.buffer.write(b"".join(seen))
    sys.stdout.flush()
    sys.exit(0)


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    listener = socket.create_server(("127.0.0.1", 0))
    signal.signal(signal.SIGTERM, finish)
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    while True:
        client, _ = listener.accept()
        server = socket.create_connection((host, int(port)))
        for source, sink, keep in ((client, server, True), (server, client, False)):
            threading.Thread(target=pump, args=(source, sink, keep), daemon=True).start()


main()
