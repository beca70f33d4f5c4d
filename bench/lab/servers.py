"""What is measured and what stands around it: hookonce, its peers, the consumer, Redis. Each on a free port, in the lab's folder."""

import getpass
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .deliveries import SECRET
from .proc import Process, Trouble, free_port
from .table import progress

BENCH = Path(__file__).resolve().parent.parent
PEERS = BENCH / "peers"
# Where Debian and its kin put the modules of nginx.
MODULES = "/usr/lib/nginx/modules"
NAMESPACE = "bench"
# What hookonce says once its ports are open: the one for deliveries, and that of the admin side.
SERVING = r"serving listen=\S+:(\d+) admin=\S+:(\d+)"


@dataclass(frozen=True)
class Server:
    name: str
    process: Process
    port: int
    """Of the admin side; 0 where there is none."""
    admin: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def verifies(self) -> bool:
        return self.name != "nginx-plain"


@dataclass
class Lab:
    """Owns a folder and every process that was started in it."""

    binary: Path
    load: Path
    target: Path
    folder: Path
    stack: ExitStack
    started: int = 0

    def start(self, name: str, argv: list[str | Path], env: dict[str, str] | None = None, has_children: bool = False) -> Process:
        self.started += 1
        process = Process(name, argv, self.folder / f"{self.started}-{name}.log", env)
        # A parent that is killed leaves its children to whoever collects the dead, which is nobody in some containers.
        self.stack.callback(process.stop if has_children else process.kill)
        return process

    def room(self, name: str) -> Path:
        """A new folder of this name, or near it."""
        self.started += 1
        room = self.folder / f"{self.started}-{name}"
        room.mkdir()
        return room

    @contextmanager
    def scene(self) -> "Iterator[Lab]":
        """A lab within the lab: what is started in it ends with it."""
        with ExitStack() as stack:
            yield Lab(self.binary, self.load, self.target, self.room("scene"), stack)


@contextmanager
def open_lab(binary: Path, load: Path, target: Path) -> Iterator[Lab]:
    """The folder is on the disk that builds go to: elsewhere a temporary one may be in memory, where flushing costs nothing."""
    parent = target / "bench"
    parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="lab-", dir=parent) as folder, ExitStack() as stack:
        # Workers of nginx may run as another user.
        os.chmod(folder, 0o755)
        yield Lab(binary, load, target, Path(folder), stack)


def redis(lab: Lab) -> Server:
    """Without snapshots: a fork in the middle of a run would be measured too."""
    argv: list[str | Path] = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", lab.room("redis")]
    return _on_free_port("redis", lambda port: lab.start("redis", [*argv, "--port", str(port)]))


def _on_free_port(name: str, start: Callable[[int], Process]) -> Server:
    """For programs that cannot tell which port they were given. Somebody else may take one meanwhile, so there is a second try."""
    tries = 3
    for number in range(tries):
        port = free_port()
        process = start(port)
        try:
            process.wait_for_port(port)
            # Whoever answers there may be somebody else.
            process.check()
            return Server(name, process, port)
        except Trouble:
            if number + 1 == tries:
                raise
    raise Trouble(f"no port was free for {name}")


def nginx(lab: Lab, name: str, consumer: int = 0, redis_port: int = 0) -> Server:
    marks = {"consumer": consumer, "user": getpass.getuser(), "peers": PEERS, "modules": MODULES}
    text = (PEERS / f"{name}.conf").read_text()
    for mark, value in marks.items():
        text = text.replace("{{" + mark + "}}", str(value))

    def start(port: int) -> Process:
        room = lab.room(name)
        (room / "nginx.conf").write_text(text.replace("{{port}}", str(port)))
        env = {"WEBHOOK_SECRET": SECRET, "REDIS_PORT": str(redis_port)}
        return lab.start(name, ["nginx", "-p", room, "-e", "stderr", "-c", room / "nginx.conf"], env, has_children=True)

    return _on_free_port(name, start)


def consumer(lab: Lab) -> Server:
    return nginx(lab, "consumer")


@dataclass
class Count:
    """How many deliveries have reached the consumer."""

    consumer: Server
    looks: int = 0

    def settled(self) -> int:
        """Once no more of them come: a proxy may still forward what its sender no longer waits for."""
        before, now = -1, self.look()
        while now != before:
            time.sleep(0.1)
            before, now = now, self.look()
        return now

    def look(self) -> int:
        with urllib.request.urlopen(f"http://{self.consumer.address}/count", timeout=10) as answer:
            text = answer.read().decode()
        # Each look is a request too. The third line has connections accepted, connections handled, and requests.
        self.looks += 1
        return int(text.splitlines()[2].split()[2]) - self.looks


def slow_consumer(lab: Lab, delay: str) -> Server:
    return _listening(lab, "slow-consumer", [lab.load, "consumer", "--delay", delay])


def relay(lab: Lab, to: Server, delay: str) -> Server:
    return _listening(lab, "relay", [lab.load, "relay", "--to", to.address, "--delay", delay])


def _listening(lab: Lab, name: str, argv: list[str | Path], env: dict[str, str] | None = None) -> Server:
    process = lab.start(name, argv, env)
    return Server(name, process, int(process.wait_for_line(r"listening on \S+:(\d+)")[1]))


def express(lab: Lab, consumer_port: int, redis_port: int) -> Server | None:
    """None where Node is missing: it is the one peer that one can do without."""
    if not (shutil.which("node") and shutil.which("npm")):
        progress("node or npm is missing: the express peer is left out")
        return None
    home = lab.target / "bench" / "express"
    home.mkdir(parents=True, exist_ok=True)
    for part in ("package.json", "server.js"):
        shutil.copy(PEERS / "express" / part, home / part)
    if not (home / "node_modules" / "express").is_dir():
        progress("npm installs what the express peer needs")
        argv = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
        if subprocess.run(argv, cwd=home, stdout=subprocess.DEVNULL, check=False).returncode != 0:
            progress("npm could not install it: the express peer is left out")
            return None
    env = {"WEBHOOK_SECRET": SECRET, "REDIS_PORT": str(redis_port), "CONSUMER_PORT": str(consumer_port), "NODE_ENV": "production"}
    return _listening(lab, "express", ["node", home / "server.js"], env)


@dataclass(frozen=True)
class Setup:
    """How hookonce is run. Whatever is not here stays as it is by default, the log of every delivery too."""

    upstream: int
    store: str
    workers: int | None = 1
    providers: int = 1
    max_body: str | None = None

    def toml(self) -> str:
        lines = ['listen = "127.0.0.1:0"', 'admin = "127.0.0.1:0"', f'upstream = "http://127.0.0.1:{self.upstream}"']
        lines += [f"workers = {self.workers}"] if self.workers else []
        # Nobody looks away from it before it stops.
        lines += ["[drain]", 'delay = "0s"', "[store]", f'url = "{self.store}"']
        lines += [f'namespace = "{NAMESPACE}"'] if self.store.startswith("redis") else []
        for number in range(self.providers):
            name = "github" if self.providers == 1 else f"github-{number}"
            lines += [f"[providers.{name}]", 'preset = "github"', f'path = "/{name}"', 'secret = { env = "WEBHOOK_SECRET" }']
            lines += [f'max_body = "{self.max_body}"'] if self.max_body else []
        return "\n".join(lines) + "\n"


def launch(lab: Lab, setup: Setup, under: list[str | Path] | None = None) -> Process:
    """Starts hookonce and waits for nothing. `under` is a program that runs it."""
    config = lab.room("hookonce") / "hookonce.toml"
    config.write_text(setup.toml())
    return lab.start("hookonce", [*(under or []), lab.binary, "run", "--config", config], {"WEBHOOK_SECRET": SECRET})


def hookonce(lab: Lab, setup: Setup, under: list[str | Path] | None = None) -> Server:
    process = launch(lab, setup, under)
    ports = process.wait_for_line(SERVING, patience=120)
    return Server("hookonce", process, int(ports[1]), int(ports[2]))


def store_url(lab: Lab, kind: str, redis_port: int) -> str:
    """A store of its own for whoever asks, but for Redis, which is the one that was started."""
    match kind:
        case "redis":
            return f"redis://127.0.0.1:{redis_port}"
        case "file":
            return f"file:{lab.room('store') / 'data'}"
        case "memory":
            return "memory:"
    raise Trouble(f"there is no store {kind!r}: redis, file or memory")


def peer(lab: Lab, name: str, consumer_port: int, redis_port: int) -> Server | None:
    match name:
        case "nginx-plain" | "nginx-lua":
            return nginx(lab, name, consumer_port, redis_port)
        case "express":
            return express(lab, consumer_port, redis_port)
        case "floor":
            ports = ["--consumer", f"127.0.0.1:{consumer_port}", "--redis", f"127.0.0.1:{redis_port}"]
            return _listening(lab, "floor", [lab.load, "floor", *ports, "--secret", SECRET])
    raise Trouble(f"there is no peer {name!r}: nginx-plain, nginx-lua, express, floor")
