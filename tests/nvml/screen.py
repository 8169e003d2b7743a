"""A program in a terminal of its own, and what stands on the screen."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

ESCAPE = re.compile(r"\x1b(?:\[([?>0-9;]*)([@-~])|[()][A-Za-z0-9]|[=>78MDEc]|\][^\x07]*\x07)")


class Screen:
    """As much of an xterm as full-screen programs need to put text somewhere."""

    def __init__(self, rows=30, columns=120):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.last = " "

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells).rstrip() + "\n"

    def put(self, char):
        if self.column < self.columns:
            self.cells[self.row][self.column] = char
        self.column += 1
        self.last = char

    def feed(self, text):
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = ESCAPE.match(text, at)
                if match is None:
                    return text[at:]
                if match.group(2):
                    self.control(match.group(1), match.group(2))
                at = match.end()
                continue
            char = text[at]
            at += 1
            if char == "\r":
                self.column = 0
            elif char == "\n":
                self.row = min(self.row + 1, self.rows - 1)
            elif char == "\b":
                self.column = max(self.column - 1, 0)
            elif char >= " ":
                self.put(char)
        return ""

    def control(self, parameters, letter):
        numbers = [int(n) if n.isdigit() else 0 for n in parameters.split(";")]
        first = max(numbers[0], 1)
        if letter in "Hf":
            self.row = min(first, self.rows) - 1
            self.column = max(numbers[1] if len(numbers) > 1 else 1, 1) - 1
        elif letter == "d":
            self.row = min(first, self.rows) - 1
        elif letter == "G":
            self.column = first - 1
        elif letter == "A":
            self.row = max(self.row - first, 0)
        elif letter == "B":
            self.row = min(self.row + first, self.rows - 1)
        elif letter == "C":
            self.column += first
        elif letter == "D":
            self.column = max(self.column - first, 0)
        elif letter == "b":
            for _ in range(first):
                self.put(self.last)
        elif letter == "X":
            self.blank(self.row, self.column, self.column + first)
        elif letter == "K":
            self.blank(self.row, 0 if numbers[0] in (1, 2) else self.column, self.column + 1 if numbers[0] == 1 else self.columns)
        elif letter == "J":
            for row in range(0 if numbers[0] == 2 else self.row + 1, self.rows):
                self.blank(row, 0, self.columns)
            if numbers[0] == 0:
                self.blank(self.row, self.column, self.columns)

    def blank(self, row, start, end):
        for column in range(start, min(end, self.columns)):
            self.cells[row][column] = " "


def watch(command, is_done, env, seconds=60, keys=b"q", rows=30, columns=120):
    """Runs it until is_done(screen text) and types `keys`: the screen then, and the exit status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env={**env, "TERM": "xterm", "LANG": "C.UTF-8"},
                               close_fds=True, start_new_session=True)
    os.close(slave)
    screen, rest, end, seen = Screen(rows, columns), "", time.monotonic() + seconds, None
    while time.monotonic() < end:
        if not select.select([master], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(master, 65536)
        except OSError:
            break  # the program is gone
        if not data:
            break
        rest = screen.feed(rest + data.decode("utf-8", "replace"))
        if seen is None and is_done(screen.text()):
            seen = screen.text()
            os.write(master, keys)
    if process.poll() is None and seen is None:
        process.kill()
    try:
        status = process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    os.close(master)
    return seen if seen is not None else screen.text(), status
