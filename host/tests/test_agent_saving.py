"""Nothing goes out that is not on disk, and a disk that fails is told, waited for and told again."""

from __future__ import annotations

import errno

import anyio
import pytest

from unipi.agent import AgentError, AgentOptions
from unipi.session import Session, SessionWriteError, store
from unipi.sim import Call, Say
from unipi.testing import lab, prefix_breaks
from unipi_hookspecs import ProviderRequestSealedEvent, ToolResultMessage, hookimpl

SCRIPT = [[Say(f"answer {n}")] for n in range(4)]
BRIEF = AgentOptions(save_wait=0.0)


class Disk:
    """A disk that can be told to refuse, at the sync or already at the write."""

    def __init__(self, monkeypatch):
        self.full = False
        self.writes_fail = False
        self.sync, self.write = store._fdatasync, store.write_all
        monkeypatch.setattr(store, "_fdatasync", self._sync)
        monkeypatch.setattr(store, "write_all", self._write)

    def _sync(self, fd):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.sync(fd)

    def _write(self, fd, data):
        if self.full and self.writes_fail:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.write(fd, data)


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture
def session(tmp_path):
    return Session.create(tmp_path / "s.jsonl", cwd=tmp_path)


async def test_every_entry_is_on_disk_when_a_request_goes_out(tmp_path, session):
    unsaved = []

    class Watches:
        @hookimpl
        def provider_request_sealed(self, event: ProviderRequestSealedEvent):
            unsaved.append(session.unsaved)

    script = [[Call("ls", {"path": "."})], [Say("ok")]]
    plugins = [("watches", Watches())]
    async with lab(tmp_path, script, plugins=plugins, session=session) as it:
        await it.agent.prompt("go")
    assert unsaved == [0, 0]


async def test_a_disk_that_stays_full_ends_each_run_in_words_and_the_next_tries_again(
    tmp_path, session, disk
):
    async with lab(tmp_path, SCRIPT, session=session, options=BRIEF) as it:
        disk.full = True
        for _ in range(2):
            with pytest.raises(AgentError, match="No space left on device"):
                await it.agent.prompt("go")
        assert it.sim.requests == []
        assert [n.level for n in it.notices] == ["error"]
        disk.full = False
        await it.agent.prompt("and now")
        assert [n.text for n in it.notices[1:]] == ["saved; going on"]
        assert session.unsaved == 0
    assert [r.status for r in it.sim.requests] == [200]


async def test_calls_that_a_full_disk_would_forget_are_not_run_and_have_their_results(
    tmp_path, session, disk
):
    script = [[Call("bash", {"command": "touch ran"})], [Say("ok")]]
    disk.writes_fail = True

    class Fills:
        done = False

        @hookimpl
        def provider_response_end(self):
            disk.full, self.done = not self.done, True

    plugins = [("fills", Fills())]
    async with lab(tmp_path, script, plugins=plugins, session=session, options=BRIEF) as it:
        with pytest.raises(AgentError):
            await it.agent.prompt("go")
        assert not (tmp_path / "ran").exists()
        result = session.messages()[-1]
        assert isinstance(result, ToolResultMessage)
        assert "could not be saved" in result.content[0].text
        disk.full = False
        await it.agent.prompt("go on")
    assert [r.status for r in it.sim.requests] == [200, 200]
    assert prefix_breaks(it.requests) == []


async def test_an_interrupt_ends_the_wait_for_room(tmp_path, session, disk):
    script = [[Call("bash", {"command": "touch ran"})], [Say("ok")]]
    disk.writes_fail = True
    async with lab(tmp_path, script, session=session, options=AgentOptions(save_wait=60)) as it:

        class Fills:
            def __call__(self, event):
                it.events.append(event)
                if type(event).__name__ == "ProviderResponseEndEvent" and len(it.sim.requests) == 1:
                    disk.full = True
                if "not saved" in getattr(event, "text", ""):
                    it.agent.abort()
                    disk.full = False

        it.agent.observer = Fills()
        with anyio.fail_after(10):
            await it.agent.prompt("go")
        assert it.agent.cancelled
        await it.agent.prompt("go on")
    assert not (tmp_path / "ran").exists()
    assert [r.status for r in it.sim.requests] == [200, 200]


async def test_what_cannot_be_saved_on_leaving_is_raised_bare(tmp_path, session, disk):
    with pytest.raises(SessionWriteError, match="not saved yet"):
        async with lab(tmp_path, SCRIPT, session=session) as it:
            await it.agent.prompt("go")
            disk.full = True
            session.append_custom("late", {})
