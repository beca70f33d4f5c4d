"""Stores with many events in them."""

import socket

from . import servers
from .load import Pace, pace
from .proc import Trouble
from .servers import NAMESPACE, Lab, Server, Setup
from .table import progress

# Done at the server: a million keys in seconds. They look as those of done events do, and nobody asks for them.
REDIS_FILL = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  redis.call('SET', ARGV[3] .. number, '1d|0123456789abcdef|15000|756000000|1||0123456789abcdef0123456789abcdef|1700000000', 'EX', 756000)
end
return redis.call('DBSIZE')
"""
REDIS_STEP = 10_000


def fill_redis(server: Server, keys: int) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection, connection.makefile("rb") as answers:
        for first in range(0, keys, REDIS_STEP):
            last = min(first + REDIS_STEP, keys) - 1
            words = ["EVAL", REDIS_FILL, "0", str(first), str(last), f"{NAMESPACE}:github:fill-"]
            text = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            connection.sendall(text.encode())
            if not (answer := answers.readline()).startswith(b":"):
                raise Trouble(f"Redis could not be filled: {answer.decode()}")


def fill_through(lab: Lab, server: Server, keys: int) -> None:
    """By deliveries, as there is no other way into the other stores: some ten thousand a second. It is not measured."""
    progress(f"{keys:,} events are delivered first, to be remembered")
    figures = pace(lab, [server], Pace("fill", seconds=86_400, body=128, count=keys))
    if figures.wrong:
        raise Trouble(f"{figures.wrong} of the events that fill the store were answered wrongly")


def filled_file(lab: Lab, keys: int) -> str:
    """A file store that another run has left, in good order."""
    url = servers.store_url(lab, "file", 0)
    with lab.scene() as scene:
        consumer = servers.consumer(scene)
        server = servers.hookonce(scene, Setup(consumer.port, url))
        fill_through(scene, server, keys)
        server.process.stop()
    return url
