"""`headway`: the commands, and the conversion of errors into one line and an exit code."""

import errno
import inspect
import signal
import sys
from typing import Annotated

import typer

from headway import __version__
from headway.cli.attack import attack
from headway.cli.checked_options import CheckedCommand
from headway.cli.compare import compare
from headway.cli.convert import convert
from headway.cli.data import data
from headway.cli.doctor import doctor
from headway.cli.evaluate import evaluate
from headway.cli.exercise import exercise
from headway.cli.explore import explore
from headway.cli.heads import heads
from headway.cli.lengths import lengths
from headway.cli.new import new
from headway.cli.options import discard, is_read_by_nobody, replace_what_cannot_be_encoded, say
from headway.cli.prove import prove
from headway.cli.prune import prune
from headway.cli.report import report
from headway.cli.runs import runs
from headway.cli.study import study
from headway.cli.sweep import sweep
from headway.cli.train import train
from headway.cli.verify import verify
from headway.errors import InputError, InstrumentError, Interrupted, RunStopped, is_out_of_memory
from headway.processes import ENDING, exit_code, handling_signals, interrupt, received

LONGEST = 300
"""Characters of an error message."""
LONGEST_WORD = 100
"""Characters of one word of a message that is too long."""
SHOW_CURSOR = "\x1b[?25h"
"""Written where a signal may have come between a progress bar's hiding the cursor and its end."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a disk, in contrast to those of a wrong path; one without a file is that of standard output."""

app = typer.Typer(
    name="headway",
    help="A laboratory for small transformers: which heads a model needs, and how well it generalizes in length.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    study,
    train,
    evaluate,
    heads,
    lengths,
    attack,
    prove,
    doctor,
    report,
    explore,
    prune,
    sweep,
    compare,
    data,
    runs,
    verify,
    convert,
    new,
    exercise,
):
    short = (inspect.getdoc(command) or "").partition("\n\n")[0]  # whole, where it would be cut off
    app.command(cls=CheckedCommand, short_help=short)(command)


def show_version(wanted: bool) -> bool:
    if wanted:
        print(f"headway {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def everything(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; exit codes: 0 done, 1 an error was found, 2 wrong input, 130 Ctrl-C, 143 SIGTERM."""
    replace_what_cannot_be_encoded(sys.stdout)
    try:
        with handling_signals(interrupt):
            code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the command
        code = _fail("interrupted", exit_code())
    # A progress bar that was interrupted may still stand before sys.stderr, and would print the code as a text.
    if received and sys.__stderr__ is not None and sys.__stderr__.isatty():
        sys.__stderr__.write(SHOW_CURSOR)
        sys.__stderr__.flush()
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)  # all is done, and the exit code is known
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        if code == 0 and not isinstance(error, BrokenPipeError):
            code = _fail(f"standard output: {error}", 2)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """The exit code of a command line; every error is one line on stderr."""
    received.clear()
    try:
        code = app(arguments or ["--help"], standalone_mode=False)
        if code == 130:
            return _fail("interrupted", exit_code())
        if received and not code:
            return _fail("interrupted when all was done", exit_code())
        return code if isinstance(code, int) else 0
    except InputError as error:
        return _fail(error, 2)
    except (RunStopped, InstrumentError) as error:
        return _fail(error, 1)
    except Interrupted as stop:
        return _fail(stop, exit_code())
    except KeyboardInterrupt:
        return _fail("interrupted", exit_code())
    except BrokenPipeError as error:
        return _end_of_reading(error)
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # Typer turns it into exit code 1
            raise
        return _end_of_reading(end.__context__)
    except OSError as error:
        if error.errno in NO_ROOM and not error.filename:
            return _fail(f"standard output: {error}", 2)
        return _fail(error, 1 if error.errno in NO_ROOM else 2)
    except MemoryError as error:
        return _fail(f"out of memory ({error}); a smaller batch, model or data set is needed", 2)
    except Exception as error:
        # Usage errors come from the command-line parser, which is not imported here; they have a message.
        message = getattr(error, "format_message", None)
        if message is None and is_out_of_memory(error) and isinstance(error, RuntimeError):
            return _fail(f"out of memory ({error}); a smaller batch, model or data set is needed", 2)
        if message is None:
            raise
        return _fail(message() or "no command given; headway --help lists them", 2)


def _end_of_reading(error: BrokenPipeError) -> int:
    """0 if the reader of standard output has closed it, as `| head -1` does."""
    if not is_read_by_nobody(sys.stdout):
        return _fail(error, 2)
    discard(sys.stdout)
    return 0


def _fail(error: object, code: int) -> int:
    say(one_line(f"headway: {error}"))
    return code


def one_line(message: str) -> str:
    """A message as one printable line of at most 300 characters: long words lose their middle, then the end is cut."""
    words = [word if word.isprintable() else repr(word)[1:-1] for word in message.split()]
    if len(" ".join(words)) > LONGEST:
        words = [_short(word) for word in words]
    line = " ".join(words)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 4]} ..."


def _short(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else f"{word[:40]}[{len(word) - 50:,} characters]{word[-10:]}"
