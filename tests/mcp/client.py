"""`ramson mcp` as a client of the official library sees it: revisions, tools, answers, their sizes, marks, errors."""

import asyncio
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jsonschema
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

ROOT = pathlib.Path(__file__).resolve().parents[2]
RAMSON = os.environ["RAMSON"]
TOOLS = ["list", "report", "leaks", "diff", "explain", "timeline", "source"]
USUAL_BYTES = 8000
# By tests/mcp/holds.c: glibc gives 10,008 bytes for 10,000, and 4,008 for 4,000.
HELD_BYTES = 3000 * 10008 + 3000 // 8 * 4008
# Blocks of the C library, too small to be sampled, are among glibc's total.
BESIDES_BYTES = 8192
PARTS = ["verdict", "evidence", "left_out", "next"]


class Session(unittest.IsolatedAsyncioTestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.scratch = pathlib.Path(tempfile.mkdtemp(prefix="ramson-mcp-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.environment = {"RAMSON_DIR": str(cls.scratch / "profiles"), "RAMSON_LIBRARY": os.environ["RAMSON_LIBRARY"],
                           "XDG_CACHE_HOME": str(cls.scratch / "cache"), "RAMSON_HISTORY": str(cls.scratch / "history.db")}
        source = cls.scratch / "src" / "holds.c"
        source.parent.mkdir()
        shutil.copy(ROOT / "tests/mcp/holds.c", source)
        program = cls.scratch / "holds"
        subprocess.run(["gcc", "-g", "-O0", "-o", program, source], check=True)
        cls.running = cls.start(program)
        cls.dead = cls.start(program)
        cls.dead.send_signal(signal.SIGKILL)
        cls.dead.wait()
        [cls.dead_file] = (cls.scratch / "profiles").glob(f"{cls.dead.pid}-*.ramson")
        cls.ramson("mark", str(cls.running.pid), "before")

    @classmethod
    def start(cls, program):
        """A recorded process that has allocated all it will. `ramson run` becomes it, so that it has its ID."""
        preload = dict(os.environ, **cls.environment, LD_PRELOAD=os.environ["RAMSON_LIBRARY"])
        running = subprocess.Popen([program], stdout=subprocess.PIPE, env=preload)
        cls.addClassCleanup(running.wait)
        cls.addClassCleanup(running.kill)
        cls.addClassCleanup(running.stdout.close)
        assert running.stdout.readline() == b"ready\n"
        return running

    @classmethod
    def ramson(cls, *arguments):
        done = subprocess.run([RAMSON, *arguments], env=dict(os.environ, **cls.environment), check=True, capture_output=True)
        return done.stdout

    def client(self, *arguments, mode="auto"):
        server = StdioServerParameters(command=RAMSON, args=["mcp", *arguments], env=self.environment)
        return Client(server, mode=mode)

    async def ask(self, client, tool, **arguments):
        """The answer of a tool that works, checked for what all answers have."""
        result = await client.call_tool(tool, arguments)
        [content] = result.content
        self.assertFalse(result.is_error, content.text)
        self.assertLessEqual(len(content.text.encode()), arguments.get("max_bytes", USUAL_BYTES), tool)
        answer = json.loads(content.text)
        self.assertEqual(list(answer), PARTS)
        self.assertTrue(answer["verdict"])
        for call in answer["next"]:
            self.assertIn(call["tool"], TOOLS)
        return answer

    def pid(self):
        return str(self.running.pid)

    async def test_the_current_revision_is_spoken_and_older_ones_too(self):
        async with self.client() as client:
            self.assertEqual(client.protocol_version, "2026-07-28")
            self.assertEqual(client.server_info.name, "ramson")
            self.assertIn("Begin with list", client.instructions)
        async with self.client(mode="legacy") as client:
            self.assertEqual(client.protocol_version, "2025-11-25")
            await client.send_ping()
            await self.ask(client, "list")

    async def test_tools_are_read_only_and_say_what_they_take(self):
        async with self.client() as client:
            tools = (await client.list_tools()).tools
        self.assertEqual([tool.name for tool in tools], TOOLS)
        for tool in tools:
            self.assertTrue(tool.description)
            self.assertTrue(tool.annotations.read_only_hint)
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            self.assertIn("max_bytes", tool.input_schema["properties"])

    async def test_every_answer_is_small_and_its_evidence_is_the_command_s_document(self):
        calls = {"list": {}, "report": {"source": self.pid()}, "leaks": {"source": self.pid()},
                 "diff": {"old": str(self.dead_file), "new": self.pid()}, "explain": {"source": self.pid()},
                 "source": {"source": self.pid(), "file": str(self.scratch / "src" / "holds.c")}}
        async with self.client("--source-root", str(self.scratch / "src")) as client:
            for tool, arguments in calls.items():
                answer = await self.ask(client, tool, **arguments)
                schema = json.loads((ROOT / f"docs/schemas/{tool}.json").read_text())
                jsonschema.validate(answer["evidence"], schema)
                self.assertTrue(answer["next"], tool)

    async def test_of_a_dead_process_the_evidence_is_what_json_prints(self):
        async with self.client() as client:
            for tool in ["report", "leaks"]:
                answer = await self.ask(client, tool, source=str(self.dead_file), max_bytes=1_000_000)
                self.assertEqual(answer["left_out"], [])
                self.assertEqual(answer["evidence"], json.loads(self.ramson(tool, str(self.dead_file), "--json")), tool)

    async def test_an_answer_has_as_many_bytes_as_are_asked_for_and_says_what_it_lacks(self):
        async with self.client() as client:
            small = await self.ask(client, "explain", source=self.pid(), max_bytes=2000)
            self.assertTrue(small["left_out"])
            whole = await self.ask(client, "explain", source=self.pid(), max_bytes=500_000)
            self.assertEqual(whole["left_out"], [])

    async def test_the_verdict_names_what_holds_the_memory_and_a_line_of_source_has_its_bytes(self):
        async with self.client("--source-root", str(self.scratch / "src")) as client:
            report = await self.ask(client, "report", source=self.pid())
            self.assertIn("hold", report["verdict"])
            # What a running process holds is known from the allocator's total; of a dead one it is estimated.
            dead = await self.ask(client, "report", source=str(self.dead_file))
            self.assertIn("±", dead["verdict"])
            source = await self.ask(client, "source", source=self.pid(), file=str(self.scratch / "src" / "holds.c"))
            allocates = [line for line in source["evidence"]["lines"] if "malloc(bytes)" in line["text"]]
            self.assertEqual(len(allocates), 1)
            flat = allocates[0]["flat"]
            # Six standard errors: fails less than once in a hundred million runs.
            self.assertLess(abs(flat["value"] - HELD_BYTES), 3 * flat["half_width_95"] + BESIDES_BYTES)

    async def test_marks_are_resources(self):
        async with self.client() as client:
            [mark] = (await client.list_resources()).resources
            self.assertEqual(mark.name, "before")
            [content] = (await client.read_resource(mark.uri)).contents
            report = json.loads(content.text)
            self.assertEqual(report["evidence"]["kind"], "stacks")
            self.assertEqual(report["evidence"]["pid"], self.running.pid)
            with self.assertRaises(MCPError) as refused:
                await client.read_resource(mark.uri + "/../../../etc/passwd")
            self.assertEqual(refused.exception.code, -32602)

    async def test_what_a_model_can_mend_is_a_result_and_the_rest_is_an_error_of_the_protocol(self):
        async with self.client() as client:
            with self.assertRaises(MCPError) as refused:
                await client.call_tool("trim", {"source": self.pid()})
            self.assertEqual(refused.exception.code, -32602)
            for tool, arguments, finding in [
                ("report", {"source": "name:there-is-none"}, "there-is-none"),
                ("report", {}, "source: report needs it"),
                ("report", {"source": self.pid(), "view": "flames"}, "flames"),
                ("report", {"source": self.pid(), "window": "1h"}, "not a parameter"),
                ("report", {"source": "-"}, "standard input carries the protocol"),
                ("report", {"source": "http://127.0.0.1:1/"}, "addresses are not fetched"),
                ("source", {"source": "-", "file": "x"}, "standard input carries the protocol"),
                ("source", {"source": self.pid(), "file": "/etc/passwd"}, "--source-root"),
            ]:
                result = await client.call_tool(tool, arguments)
                self.assertTrue(result.is_error, (tool, arguments))
                self.assertIn(finding, result.content[0].text)
            # The session goes on.
            await self.ask(client, "list")

    async def test_source_code_is_shown_only_of_files_that_the_debug_information_names(self):
        (self.scratch / "src" / "secret.c").write_text("secret\n")
        async with self.client("--source-root", str(self.scratch / "src")) as client:
            for file in [str(self.scratch / "src" / "secret.c"), "/etc/passwd", "../profiles"]:
                result = await client.call_tool("source", {"source": self.pid(), "file": file})
                self.assertTrue(result.is_error)
                self.assertIn("not in this profile's debug information", result.content[0].text)

    async def test_nothing_is_changed(self):
        def state():
            return sorted((str(path), path.stat().st_size) for path in (self.scratch / "profiles").rglob("*"))
        before = state()
        async with self.client() as client:
            for tool in ["report", "leaks", "explain"]:
                await self.ask(client, tool, source=self.pid())
        self.assertEqual(state(), before)

    def test_the_end_of_the_input_is_the_end_of_the_session(self):
        done = subprocess.run([RAMSON, "mcp"], stdin=subprocess.DEVNULL, env=self.environment, capture_output=True, timeout=60)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (b"", b"", 0))

    def test_what_is_no_protocol_is_said_in_a_line(self):
        done = subprocess.run([RAMSON, "mcp"], input=b"hello\n", env=self.environment, capture_output=True, timeout=60)
        self.assertLessEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=1).run(unittest.defaultTestLoader.loadTestsFromTestCase(Session))
    failed = len(result.failures) + len(result.errors)
    verdict = "ok" if failed == 0 else "FAILED"
    print(f"test result: {verdict}. {result.testsRun - failed} passed; {failed} failed")
    sys.exit(failed > 0)
