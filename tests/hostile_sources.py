#!/usr/bin/env python3
"""The public malloc tests of glibc, jemalloc and mimalloc, from their Debian source packages, plain and under ramson.

Fetches the packages through apt, with source entries derived from the machine's own, into target/hostile-sources; builds the tests that
can be built outside their trees; runs each plain and at intervals of 512K and 1. A test that passes plain must pass under ramson, and most must
have left a profile there.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "target/hostile-sources"
LIBRARY = os.environ.get("RAMSON_LIBRARY", str(ROOT / "target/guest/libramson.so"))
INTERVALS = ["512K", "1"]
SECONDS = 300
# Least share of the tests that must have left a profile at an interval of 1: some never come to allocate.
LEAST_RECORDED = 0.5
LIBRARIES = pathlib.Path("/usr/lib/x86_64-linux-gnu")
DEBUGGING_MALLOC = {"LD_PRELOAD": "libc_malloc_debug.so.0", "MALLOC_CHECK_": "3"}

# Files among glibc's tests that are no tests of malloc as a program sees it, and what they are instead.
LEFT_OUT = {
    "tst-alloc_buffer": "internal", "tst-dynarray": "internal", "tst-dynarray-fail": "internal", "tst-dynarray-at-fail": "internal",
    "tst-scratch_buffer": "internal", "tst-mallocalign1": "internal", "tst-mallocstate": "internal", "tst-compathooks-off": "internal",
    "tst-compathooks-on": "internal", "tst-interpose-aux": "a part", "tst-interpose-aux-nothread": "a part",
    "tst-interpose-aux-thread": "a part", "tst-interpose-skeleton": "a part", "tst-interpose-static-nothread": "static",
    "tst-interpose-static-thread": "static", "tst-malloc-usable-tunables": "a copy of tst-malloc-usable",
}
# Definitions that glibc's own headers and make would give; the rest of what its tests need is in support/.
GLIBC_PREFIX = """#include <limits.h>
#define libc_hidden_proto(name)
#define TIMEOUTFACTOR 10
""" + "".join(f'#define {name}_PATH "."\n' for name in ["SRCDIR", "OBJDIR", "OBJDIR_ELF_LDSO", "INSTDIR", "LIBDIR", "BINDIR", "SBINDIR", "ROOTSBINDIR",
                                                    "SLIBDIR", "SYSCONFDIR", "COMPLOCALEDIR"])


def say(text):
    print(text, flush=True)


def run(command, **options):
    """Runs a tool; on failure says what it said and ends."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"hostile-sources: {command[0]} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def source_entries():
    """The machine's apt entries as entries of sources, in the two formats that apt has."""
    apt = pathlib.Path("/etc/apt")
    stanzas = [path.read_text() for path in sorted(apt.glob("sources.list.d/*.sources"))]
    lines = [line for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))] if path.exists()
             for line in path.read_text().splitlines()]
    return {"all.sources": "\n\n".join(re.sub(r"(?m)^Types:.*$", "Types: deb-src", stanza) for stanza in stanzas),
            "all.list": "\n".join(re.sub(r"^deb\s", "deb-src ", line) for line in lines if line.startswith("deb ")) + "\n"}


def fetch(packages):
    """Unpacks the original source of each package; returns their directories."""
    downloads, state = WORK / "downloads", WORK / "apt"
    for directory in [downloads, state / "parts", state / "lists/partial", state / "cache/archives/partial"]:
        directory.mkdir(parents=True, exist_ok=True)
    for name, text in source_entries().items():
        (state / "parts" / name).write_text(text)
    options = {"Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": state / "parts", "Dir::State::lists": state / "lists",
               "Dir::Cache": state / "cache", "APT::Sandbox::User": "root"}
    apt = ["apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    for package in packages:
        if not list(downloads.glob(f"{package}_*.orig.tar.*")):
            # An entry without sources is no matter as long as another has them.
            subprocess.run([*map(str, apt), "update"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            run([*apt, "--download-only", "source", package], cwd=downloads)
    return [unpack(next(path for path in downloads.glob(f"{package}_*.orig.tar.*") if path.suffix != ".asc"), WORK / package)
            for package in packages]


def unpack(archive, directory):
    if not directory.exists():
        partial = pathlib.Path(tempfile.mkdtemp(dir=WORK))
        run(["tar", "-xf", archive, "-C", partial, "--strip-components=1"])
        partial.rename(directory)
    return directory


def compile_if_missing(output, command):
    """Compiles; whether the program is there afterwards."""
    if not output.exists():
        subprocess.run(list(map(str, command + ["-o", output])), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return output.exists()


def build_glibc(source):
    """Yields (name, command, environment): each of malloc/tst-*.c, alone and as glibc's own make check runs it with MALLOC_CHECK_."""
    built, include = WORK / "glibc-built", WORK / "glibc-built/include"
    include.mkdir(parents=True, exist_ok=True)
    links = ["support", "malloc", "test-skeleton.c", *(f"include/{name}.h" for name in ["array_length", "libc-diag", "libc-pointer-arith",
                                                                                       "intprops", "verify"])]
    for link in links:
        target = include / pathlib.Path(link).name
        if not target.exists():
            target.symlink_to(source / link)
    (include / "config.h").touch()
    (include / "prefix.h").write_text(GLIBC_PREFIX)
    flags = ["-D_GNU_SOURCE", "-w", "-O1", "-g", "-fno-builtin", "-pthread", "-include", "prefix.h",
             *(f"-I{directory}" for directory in [include, source / "support", source / "malloc"])]
    objects = [built / f"{path.stem}.o" for path in sorted((source / "support").glob("*.c"))]
    # Those that need a build of glibc fail, and with them the tests that use them.
    objects = [path for path in objects if not re.match(r"tst-|test-|.*(container|static|links-dso)", path.stem)
               and compile_if_missing(path, ["gcc", *flags, "-c", source / f"support/{path.stem}.c"])]
    archive = built / "support.a"
    archive.unlink(missing_ok=True)
    run(["ar", "rc", archive, *objects])
    for path in sorted((source / "malloc").glob("tst-*.c")):
        name, program = path.stem, built / path.stem
        if name in LEFT_OUT:
            continue
        parts = [source / f"malloc/tst-interpose-aux{name[13:]}.c"] if name.startswith("tst-interpose") else []
        if not compile_if_missing(program, ["gcc", *flags, path, *parts, archive, "-ldl"]):
            sys.exit(f"hostile-sources: glibc's {name} does not compile: {program}")
        yield name, [program], {}
        if not parts:
            yield f"{name} MALLOC_CHECK_=3", [program], DEBUGGING_MALLOC


def build_jemalloc(source):
    """Its integration tests, with the jemalloc that they come with: the unit tests have a private copy that ramson does not see."""
    tests = source / "test/integration"
    if not (tests / "cpp/infallible_new_false").exists():
        run(["./configure", "-q"], cwd=source)
        run(["make", "-j2", "tests_integration"], cwd=source)
    for path in sorted([*tests.glob("*.c"), *tests.glob("cpp/*.cpp")]):
        settings = path.with_suffix(".sh")
        found = re.search(r'MALLOC_CONF="([^"]*)"', settings.read_text()) if settings.exists() else None
        if path.with_suffix("").exists():
            yield path.stem, [path.with_suffix("")], {"MALLOC_CONF": found.group(1) if found else ""}


def build_mimalloc(source):
    """Its tests over Debian's library: of its own functions, and of malloc in its place. The C++ one is a benchmark of minutes."""
    built = WORK / "mimalloc-built"
    built.mkdir(exist_ok=True)
    library = LIBRARIES / "libmimalloc.so.2"
    # The stress test has 32 threads by default; 4 do on the few cores that a test has.
    stress = ["4", "25", "10"]
    for name, file, flags in [("test-api", "test-api.c", []), ("test-api-fill", "test-api-fill.c", []),
                              ("test-stress", "test-stress.c", []), ("test-stress malloc", "test-stress.c", ["-DUSE_STD_MALLOC"]),
                              ("main-override", "main-override.c", [])]:
        program = built / name.replace(" ", "-")
        flags = ["-D_GNU_SOURCE", "-w", "-O1", "-g", "-pthread", f"-I{source}/include", f"-I{source}/src", *flags]
        if not compile_if_missing(program, ["gcc", *flags, source / "test" / file, library]):
            sys.exit(f"hostile-sources: mimalloc's {name} does not compile")
        yield name, [program, *(stress if "stress" in name else [])], {}


def outcome(command, environment, interval, directory):
    """The exit status of one run, or what ended it, and whether it left a profile; `interval` None is the plain run."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/", "LC_ALL": "C", **environment}
    with tempfile.TemporaryDirectory(dir=WORK) as profiles:
        if interval:
            preload = f"{LIBRARY}:{environment.get('LD_PRELOAD', '')}".rstrip(":")
            environment.update({"LD_PRELOAD": preload, "RAMSON_INTERVAL": interval, "RAMSON_DIR": profiles, "RAMSON_KEEP": "1"})
        process = subprocess.Popen(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            status = "hang"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        return status, any(pathlib.Path(profiles).rglob("*.ramson"))


def word(status):
    """77 is what these tests say where the system lacks what they need."""
    if isinstance(status, int) and status < 0:
        return f"signal {-status}"
    return {0: "pass", 77: "not here"}.get(status, f"fail {status}")


def check(package, name, command, environment, directory):
    """Prints one row; returns whether the test fails plain, whether it fails only under ramson, and whether it was recorded."""
    plain, _ = outcome(command, environment, None, directory)
    statuses, recorded = zip(*(outcome(command, environment, interval, directory) for interval in INTERVALS))
    is_new = any(status != plain for status in statuses)
    note = ""
    if is_new:
        again = {outcome(command, environment, None, directory)[0] for _ in range(3)} | {plain}
        if all(status in again for status in statuses):
            is_new, note = False, "  (differs plain, too)"
    note += "" if recorded[-1] else "  (not recorded)"
    say(f"{package:10}{name:48}" + "".join(f"{word(status):12}" for status in [plain, *statuses]) + ("  NEW" if is_new else "") + note)
    return plain != 0, is_new, recorded[-1]


def main():
    if not pathlib.Path(LIBRARY).exists():
        sys.exit(f"hostile-sources: {LIBRARY}: no such file. Run make build, or set RAMSON_LIBRARY")
    if not shutil.which("apt-get"):
        sys.exit("hostile-sources: apt-get is missing: source packages of Debian are needed")
    WORK.mkdir(parents=True, exist_ok=True)
    builders = {"glibc": build_glibc, "jemalloc": build_jemalloc, "mimalloc": build_mimalloc}
    chosen = sys.argv[1:] or list(builders)
    if unknown := [name for name in chosen if name not in builders]:
        sys.exit(f"hostile-sources: {unknown[0]}: not one of {', '.join(builders)}")
    say(f"{'package':10}{'test':48}{'plain':12}" + "".join(f"{interval:12}" for interval in INTERVALS))
    rows = [check(package, *test, source if package == "jemalloc" else WORK)
            for package, source in zip(chosen, fetch(chosen)) for test in builders[package](source)]
    plain, new, recorded = (sum(column) for column in zip(*rows))
    say(f"hostile-sources: {len(rows)} tests, {plain} do not pass plain, {new} new failures under ramson, {recorded} were recorded")
    sys.exit(1 if new or recorded < LEAST_RECORDED * len(rows) else 0)


main()
