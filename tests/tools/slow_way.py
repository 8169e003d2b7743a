"""A TCP proxy that keeps every byte from the client for a while: a long way to a server on this host. A lower bound for what goes through
it, and no measure of speed."""
import queue
import socket
import threading
import time


class SlowWay:
    def __init__(self, server, seconds):
        host, port = server.rsplit(":", 1)
        self.server, self.seconds = (host, int(port)), seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            held = queue.Queue()
            threading.Thread(target=self.carry, args=(client, server, held), daemon=True).start()

    def carry(self, client, server, held):
        with client, server:
            threads = [threading.Thread(target=work[0], args=work[1:], daemon=True)
                       for work in ((self.hold, client, held), (self.let_go, held, server), (self.pass_on, server, client))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def hold(self, client, held):
        piece = b"-"
        while piece:
            try:
                piece = client.recv(1 << 20)
            except OSError:
                piece = b""
            held.put((time.monotonic() + self.seconds, piece))

    @staticmethod
    def let_go(held, server):
        try:
            while True:
                when, piece = held.get()
                time.sleep(max(0.0, when - time.monotonic()))
                if not piece:
                    server.shutdown(socket.SHUT_WR)
                    return
                server.sendall(piece)
        except OSError:
            pass

    @staticmethod
    def pass_on(server, client):
        try:
            while piece := server.recv(1 << 20):
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
