"""python -m harness [--server helenus|cassandra] [--address IP] [--data DIR] VERB

  run -- COMMAND...   start the server, run the command with its environment, stop the server
  start | stop | kill | restart | environment
"""

import argparse
import os
import shutil
import subprocess
import sys

from .server import ServerError, make


def main() -> int:
    parser = argparse.ArgumentParser(prog="harness", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", default=os.environ.get("SERVER", "helenus"), choices=["helenus", "cassandra"])
    parser.add_argument("--address")
    parser.add_argument("--data", help="everything of this server; kept (a folder made up for `run` is removed)")
    parser.add_argument("verb", choices=["run", "start", "stop", "kill", "restart", "environment"])
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    server = make(arguments.server, arguments.address, arguments.data)
    if arguments.verb == "run":
        return run(server, [word for word in arguments.command if word != "--"], keep=arguments.data is not None)
    if arguments.verb == "environment":
        for name, value in server.environment().items():
            print(f"export {name}='{value}'")
        return 0
    getattr(server, arguments.verb)()
    return 0


def run(server, command: list[str], keep: bool) -> int:
    """Runs the command against the server; its exit code, or 1 if the server did not survive."""
    server.start()
    try:
        code = subprocess.run(command, env={**os.environ, **server.environment()}).returncode
        if server.pid() is None:
            print(f"{server.kind} is gone after the tests:\n{server.tail()}", file=sys.stderr)
            code = code or 1
    finally:
        server.stop()
    if code == 0 and not keep:
        shutil.rmtree(server.directory, ignore_errors=True)
    elif code != 0:
        print(f"{server.kind}'s folder is kept: {server.directory}", file=sys.stderr)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServerError as error:
        print(f"harness: {error}", file=sys.stderr)
        sys.exit(1)
