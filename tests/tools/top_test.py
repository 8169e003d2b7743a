#!/usr/bin/python3
"""`sluicectl top` in a terminal: redrawn, cut to its width, and the terminal is as it was however it ends."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from harness import BUILD, Server, clean_environment

CLEAR = "\x1b[H\x1b[2J"


class Terminal:
    """sluicectl top in a pty of so many columns."""

    def __init__(self, server, columns=200, interval="50ms"):
        self.ours, self.its = pty.openpty()
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack("HHHH", 12, columns, 0, 0))
        self.before = termios.tcgetattr(self.its)
        self.text = ""
        self.process = subprocess.Popen([f"{BUILD}/bin/sluicectl", "--socket", server.control, "top", "--interval", interval],
                                        stdin=self.its, stdout=self.its, stderr=self.its, env=clean_environment(), start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def screens(self):
        """What was drawn so far; the last may be incomplete."""
        return self.text.split(CLEAR)[1:]

    def read_until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            if select.select([self.ours], [], [], 0.1)[0]:
                self.text += os.read(self.ours, 65536).decode()
        return condition()

    def shows(self, pattern):
        """On a screen drawn from now on."""
        seen = len(self.screens())
        return self.read_until(lambda: any(re.search(pattern, s) for s in self.screens()[seen:-1]))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.its)


class Top(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)

    def open(self, **options):
        terminal = Terminal(self.server, **options)
        self.addCleanup(terminal.close)
        self.assertTrue(terminal.read_until(lambda: len(terminal.screens()) > 2), terminal.text)
        return terminal

    def is_sane(self, terminal, code=0):
        self.assertEqual(code, terminal.process.wait(30), terminal.text)
        self.assertTrue(terminal.read_until(lambda: "\x1b[?1049l" in terminal.text), "still on the second screen")
        self.assertIn("\x1b[?25h", terminal.text.split("\x1b[?25l")[-1])
        self.assertEqual(terminal.before, termios.tcgetattr(terminal.its))

    def test_a_session_comes_and_goes(self):
        terminal = self.open()
        self.assertTrue(terminal.shows(r"0 of \d+ sessions"), terminal.text)
        client = self.server.hold(40)
        self.assertTrue(terminal.shows(r"SESSION +TENANT +STATE +GPU % +MEMORY +CALLS/s +DATA/s +CLIENT +PROGRAM"), terminal.text)
        self.assertTrue(terminal.shows(rf"a +open .*:{client.pid} "), terminal.text)
        client.communicate("\n", timeout=30)
        self.assertTrue(terminal.shows(r"0 of \d+ sessions"), terminal.text)

    def test_q_and_signals_leave_the_terminal_as_it_was(self):
        for end in (lambda t: os.write(t.ours, b"xq"), lambda t: os.write(t.ours, b"\x03"), lambda t: os.write(t.ours, b"\x1c"),
                    lambda t: os.write(t.ours, b"\x1aq"), lambda t: t.process.send_signal(signal.SIGTERM)):
            terminal = self.open()
            end(terminal)
            self.is_sane(terminal)

    def test_a_server_that_goes_away_is_told_on_the_first_screen(self):
        terminal = self.open()
        self.server.stop()
        self.is_sane(terminal, code=1)
        self.assertTrue(terminal.read_until(lambda: "sluicectl: " in terminal.text.split("\x1b[?1049l")[-1]), terminal.text)

    def test_a_long_interval_has_its_first_look_soon_and_is_interrupted(self):
        terminal = Terminal(self.server, interval="1h")
        self.addCleanup(terminal.close)
        self.assertTrue(terminal.read_until(lambda: "PROGRAM" in terminal.text), terminal.text)
        os.write(terminal.ours, b"\x03")
        self.is_sane(terminal)

    def test_an_interval_that_is_none_is_refused(self):
        for interval in ("0s", "1ms", "none", "soon"):
            out = self.server.ctl("top", "--interval", interval)
            self.assertEqual(2, out.returncode, out.stderr)

    def test_no_line_is_wider_than_the_terminal(self):
        self.server.hold(40)
        terminal = self.open(columns=30)
        self.assertTrue(terminal.shows("SESSION"), terminal.text)
        for screen in terminal.screens()[:-1]:
            for line in screen.split("\r\n"):
                self.assertLessEqual(len(line), 30, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
