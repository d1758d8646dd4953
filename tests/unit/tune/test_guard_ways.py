"""A guarded process changes no file of the user's, and finds what it wrote."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.tune.guarding import Home, why_no

pytestmark = pytest.mark.slow

WAYS = ("overlay", "overlay as user", "redirect", "redirect without landlock")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Each way that this machine can."""
    name: str = request.param
    if why := why_no(name):
        pytest.skip(why)
    return name


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user's folder."""
    return Home(tmp_path)


# What Python code does, for which all ways are good: (text, what it prints, what would have
# changed).
PROGRAMS = {
    "a log that is open before a loop": (
        """
        log = open("log.csv", "a")
        for row in range(3):
            log.write(f"{row}\\n")
        log.close()
        print(open("log.csv").read().split())
        """,
        "['of', 'an', 'earlier', 'training', '0', '1', '2']",
        ["log.csv"],
    ),
    "a saver that replaces": (
        """
        open("model.part", "w").write("new")
        os.replace("model.part", "model.npy")
        print(open("model.npy").read(), os.path.exists("model.part"))
        """,
        "new False",
        ["model.npy"],
    ),
    "a thread": (
        """
        import threading
        def save():
            with open("model.npy", "wb") as file:
                file.write(b"thread")
        thread = threading.Thread(target=save)
        thread.start(); thread.join()
        print(open("model.npy").read())
        """,
        "thread",
        ["model.npy"],
    ),
    "removing": (
        """
        os.remove("model.npy")
        os.unlink("old")
        print(sorted(os.listdir(".")), os.path.exists("old"))
        """,
        "['log.csv', 'runs', 'tmp'] False",
        ["model.npy", "old"],
    ),
    "a folder that is made anew": (
        """
        import shutil
        shutil.rmtree("runs")
        os.makedirs("runs/new")
        open("runs/new/events", "w").write("x")
        print(os.listdir("runs"), os.path.exists("runs/old"))
        """,
        "['new'] False",
        None,
    ),
    "pathlib": (
        """
        from pathlib import Path
        Path("model.npy").write_text("p")
        Path("deep/er").mkdir(parents=True)
        Path("deep/er/file").touch()
        Path("log.csv").rename("moved")
        print(sorted(p.name for p in Path(".").rglob("*") if p.is_file()), Path("moved").read_text().strip())
        """,
        "['events', 'file', 'model.npy', 'moved', 'old', 'weights'] of an earlier training",
        None,
    ),
    "another folder and a relative path": (
        """
        os.chdir("runs/old")
        open("../../model.npy", "r+").write("ON")
        print(open("../../model.npy").read().strip())
        os.chdir("../..")
        """,
        "ON an earlier training",
        ["model.npy"],
    ),
    "a folder's descriptor": (
        """
        folder = os.open("runs/old", os.O_RDONLY)
        file = os.open("events", os.O_WRONLY | os.O_TRUNC, dir_fd=folder)
        os.write(file, b"fd"); os.close(file)
        print(open("runs/old/events").read())
        os.unlink("events", dir_fd=folder)
        print(os.path.exists("runs/old/events"))
        """,
        "fd\nFalse",
        ["runs/old/events"],
    ),
    "links": (
        """
        os.link("model.npy", "hard"); os.symlink("log.csv", "soft")
        open("hard", "w").write("h"); open("soft", "w").write("s")
        print(open("soft").read(), open("hard").read())
        """,
        "s h",
        None,
    ),
    "times and modes": (
        """
        os.chmod("model.npy", 0o600); os.utime("model.npy", (1, 1)); os.truncate("log.csv", 2)
        print(oct(os.stat("model.npy").st_mode & 0o777), int(os.stat("model.npy").st_mtime), open("log.csv").read())
        """,
        "0o600 1 of",
        ["log.csv", "model.npy"],
    ),
    "a mapped file": (
        """
        import mmap
        with open("model.npy", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[:2] = b"MM"
        print(open("model.npy").read().strip())
        """,
        "MM an earlier training",
        ["model.npy"],
    ),
    "a file sent to another": (
        """
        with open("log.csv", "rb") as source, open("model.npy", "wb") as target:
            os.sendfile(target.fileno(), source.fileno(), 0, 2)
        print(open("model.npy").read())
        """,
        "of",
        ["model.npy"],
    ),
    "a fork": (
        """
        child = os.fork()
        if child == 0:
            open("model.npy", "w").write("forked")
            os._exit(0)
        os.waitpid(child, 0)
        print(open("model.npy").read())
        """,
        "forked",
        ["model.npy"],
    ),
    "archives and tables": (
        """
        import gzip, zipfile, csv
        with gzip.open("model.npy", "wb") as file: file.write(b"g")
        with zipfile.ZipFile("old", "w") as file: file.writestr("a", "b")
        with open("log.csv", "w", newline="") as file: csv.writer(file).writerow([1, 2])
        print(gzip.open("model.npy").read(), zipfile.ZipFile("old").namelist(), open("log.csv").read().strip())
        """,
        "b'g' ['a'] 1,2",
        ["log.csv", "model.npy", "old"],
    ),
    "errors as they are": (
        """
        for text in ("os.remove('none')", "open('none')", "open('none', 'r+')", "os.mkdir('runs')", "os.rmdir('runs')",
                     "open('model.npy', 'x')", "open('no/where', 'w')", "open('runs', 'w')", "os.listdir('none')"):
            try:
                eval(text)
            except OSError as error:
                print(type(error).__name__, end=" ")
        """,
        "FileNotFoundError FileNotFoundError FileNotFoundError FileExistsError OSError FileExistsError FileNotFoundError "
        "IsADirectoryError FileNotFoundError",
        [],
    ),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_what_is_written_is_read_back_and_no_file_changes(name: str, way: str, home: Home) -> None:
    text, said, changed = PROGRAMS[name]
    ran = home.unchanged(way, text)
    assert ran.code == 0 and ran.out.strip() == said, ran.err
    assert ran.changed == changed or changed is None
    assert ran.how == way.split()[0]


# What Python's functions do not see: the overlay keeps it all, Landlock forbids what changes
# content, and without it the file changes.
UNSEEN = {
    "a subprocess": "import subprocess; subprocess.run('echo x > model.npy', shell=True, check=True, stderr=-3)",
    "C's open": """
        import ctypes
        file = ctypes.CDLL(None).open(b"model.npy", os.O_WRONLY | os.O_TRUNC)
        assert file >= 0
        os.write(file, b"x")
    """,
    "SQLite": "import sqlite3; sqlite3.connect('new.db').execute('create table t (x)')",
    "FileIO": "import _io; _io.FileIO('model.npy', 'w').write(b'x')",
    "posix": "import posix; posix.unlink('model.npy')",
    "C's rename": "import ctypes; assert ctypes.CDLL(None).rename(b'log.csv', b'model.npy') == 0",
    "exec": "import posix\nif os.fork() == 0: os.execv('/bin/rm', ['rm', 'model.npy'])\nassert os.wait()[1] == 0",
    "NumPy's mapped file": "import numpy; a = numpy.memmap('new.dat', 'u1', 'w+', shape=8); a[:] = 1; a.flush()",
    "mkfifo": "import posix; posix.mkfifo('pipe')",
}
SEEN_ANYWAY = ("NumPy's mapped file",)


@pytest.mark.parametrize("name", list(UNSEEN))
def test_what_python_does_not_see(name: str, way: str, home: Home) -> None:
    before = home.hashes()
    ran = home.run(way, UNSEEN[name])
    if way == "redirect without landlock" and name not in SEEN_ANYWAY:
        assert home.hashes() != before  # as the docstring says
        return
    assert home.hashes() == before
    assert (ran.code == 0) == (way != "redirect" or name in SEEN_ANYWAY), ran.err


def test_a_python_process_that_the_script_starts(way: str, home: Home) -> None:
    (home.path / "work.py").write_text("def save(name):\n    open(name, 'w').write('spawned')\n")
    text = """
        import subprocess
        program = "import work; work.save('model.npy'); print(open('model.npy').read())"
        print(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout, end="")
        print(open("model.npy").read())
    """
    ran = home.unchanged(way, text)
    assert ran.out.split() == ["spawned", "spawned"], ran.err


def test_other_contents_are_found_by_whoever_reads_the_file(way: str, home: Home) -> None:
    text = """
    begun.place({os.path.realpath(name): content for name, content in (("old", b"print('edited')"), ("log.csv", b"1"))})
    with open("log.csv", "a") as file:
        file.write("2")
    print(open("old").read(), open("log.csv").read(), flush=True)
    import subprocess
    subprocess.run([sys.executable, "-c", "exec(open('old').read())"], check=True)
    """
    ran = home.run(way, text)
    assert ran.out.splitlines() == ["print('edited') 12", "edited"]
    assert ran.changed == ["log.csv"], "what the script has written beyond"


def test_a_temporary_folder_inside_the_users_is_no_exception(way: str, home: Home) -> None:
    text = """
        import tempfile
        open("tmp/weights", "w").write("trained")
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x")
        kept = tempfile.mkdtemp()
        print(open("tmp/weights").read(), os.path.isdir(kept))
    """
    ran = home.unchanged(way, text, TMPDIR=str(home.path / "tmp"))
    assert ran.out.split() == ["trained", "True"], ran.err


def test_kept_folders_are_real(way: str, home: Home) -> None:
    text = f"open({str(home.keep / 'result')!r}, 'w').write('handed over')\nos.makedirs({str(home.keep / 'a' / 'b')!r})"
    ran = home.run(way, text)
    assert ran.code == 0, ran.err
    assert (home.keep / "result").read_text() == "handed over" and (home.keep / "a" / "b").is_dir()


def test_the_process_is_who_it_was_and_where_it_was(way: str, home: Home) -> None:
    text = """
        print(os.getuid(), os.getgid(), os.path.expanduser("~"), os.getcwd(), os.path.exists("/proc/self/stat"))
        open("/dev/null", "w").write("x"); open("/dev/shm/outpace-test", "w").write("x") if begun.how == "overlay" else None
        print(sorted(os.environ[name] for name in ("WANDB_MODE", "NEPTUNE_MODE")), os.path.isdir(os.environ["WANDB_DIR"]))
    """
    ran = home.run(way, text)
    who = [str(os.getuid()), str(os.getgid()), os.path.expanduser("~"), str(home.path), "True"]
    assert ran.out.split("\n")[0].split() == who, ran.err
    assert ran.out.split("\n")[1] == "['offline', 'offline'] True"
    assert not os.path.exists("/dev/shm/outpace-test")


def test_processes_share_memory_under_the_guard(way: str, home: Home) -> None:
    text = """
        from multiprocessing import shared_memory, Lock
        shared = shared_memory.SharedMemory(create=True, size=16)
        lock = Lock()
        if os.fork() == 0:
            with lock:
                shared.buf[0] = 7
            os._exit(0)
        os.wait()
        print(shared.buf[0])
        shared.close(); shared.unlink()
    """
    ran = home.run(way, text)
    assert ran.out.strip() == "7", ran.err


WRITING = """
import threading, itertools, shutil
def save(name):
    for number in itertools.count():
        open(f"{name}.part", "w").write("x" * 100000)
        os.replace(f"{name}.part", name)
        if number == 20:
            shutil.rmtree("runs", ignore_errors=True)
threading.Thread(target=save, args=("model.npy",)).start()
save("log.csv")
"""


@pytest.mark.parametrize("moment", range(6))
def test_a_killed_process_leaves_the_users_files(moment: int, way: str, home: Home) -> None:
    before, mounted = home.hashes(), Path("/proc/self/mountinfo").read_text()
    process = subprocess.Popen(home.command(WRITING), cwd=home.path, env=home.environment(way), stderr=subprocess.DEVNULL)
    time.sleep(random.Random(moment).uniform(0.0, 0.5))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert home.hashes() == before
    assert Path("/proc/self/mountinfo").read_text() == mounted
    if way.startswith("overlay"):
        assert not list(home.keep.iterdir())  # nothing stands on disk: it was memory


def test_nothing_is_left_in_the_folder_for_temporary_files(way: str, home: Home, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ran = home.run(way, "import tempfile; tempfile.mkdtemp(); open('model.npy', 'w').write('x')", TMPDIR=str(temporary))
    assert ran.code == 0, ran.err
    assert not list(temporary.iterdir())


def test_a_guard_inside_of_another(way: str, home: Home) -> None:
    inner = "import sys, json; from outpace.tune import guard; g = guard.begin([sys.argv[1]]); open('model.npy', 'w').write('inner'); "
    inner += "print(g.how, open('model.npy').read(), open('log.csv').read())"
    text = f"""
        import subprocess, tempfile
        open("log.csv", "w").write("outer")
        folder = tempfile.mkdtemp()
        os.environ.pop("OUTPACE_GUARD")
        done = subprocess.run([sys.executable, "-c", {inner!r}, folder], capture_output=True, text=True)
        print(done.stdout, done.stderr, open("model.npy").read())
    """
    ran = home.unchanged(way, text)
    assert ran.out.split()[:3] == [way.split()[0], "inner", "outer"] or "redirect" in way, ran.out
