"""The artifact folder (design §4.5; field report F52)."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from unipi.tools.artifacts import ArtifactError, Artifacts
from unipi.tools.bound import bound_output

KEY = b"k" * 32
DATA = b"output\n" * 10_000


@pytest.fixture
def artifacts(tmp_path):
    return Artifacts(tmp_path / "session" / "artifacts", KEY)


@pytest.fixture
def open_umask():
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_folder_and_file_are_private_under_an_open_umask(artifacts, open_umask):
    path = artifacts.keep(DATA, "bash")
    assert mode(path) == 0o600
    assert mode(artifacts.dir) == mode(artifacts.dir.parent) == 0o700


def test_no_moment_of_a_file_is_wider_than_0600(artifacts, open_umask, monkeypatch):
    created = []
    real = os.open

    def spy(path, flags, *args, **kwargs):
        file = real(path, flags, *args, **kwargs)
        if flags & os.O_CREAT:
            created.append((flags, stat.S_IMODE(os.fstat(file).st_mode)))
        return file

    monkeypatch.setattr(os, "open", spy)
    artifacts.keep(DATA, "bash")
    assert [found for _, found in created] == [0o600]
    assert created[0][0] & os.O_EXCL
    assert created[0][0] & os.O_NOFOLLOW


def test_a_folder_of_ours_that_is_too_open_is_closed(artifacts):
    artifacts.dir.mkdir(parents=True)
    artifacts.dir.chmod(0o755)
    assert artifacts.keep(DATA, "bash")
    assert mode(artifacts.dir) == 0o700


def test_a_symbolic_link_as_folder_is_refused(artifacts, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    artifacts.dir.parent.mkdir()
    artifacts.dir.symlink_to(tmp_path / "elsewhere")
    assert artifacts.keep(DATA, "bash") is None
    assert list((tmp_path / "elsewhere").iterdir()) == []
    text = bound_output(DATA, label="bash", artifacts=artifacts).text
    assert "not kept: its folder is a symbolic link" in text


def test_a_file_in_place_of_the_folder_is_refused(artifacts):
    artifacts.dir.parent.mkdir()
    artifacts.dir.write_text("")
    assert artifacts.keep(DATA, "bash") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(artifacts):
    artifacts.dir.mkdir(parents=True, mode=0o700)
    os.chown(artifacts.dir, 12_345, -1)
    with pytest.raises(ArtifactError, match="another user"):
        artifacts.store(DATA, "bash")
    assert list(artifacts.dir.iterdir()) == []


def test_a_name_needs_the_key_and_is_that_of_the_content(artifacts, tmp_path):
    path = artifacts.keep(DATA, "bash")
    assert artifacts.keep(DATA, "bash") == path
    assert artifacts.keep(DATA + b"!", "bash") != path
    other = Artifacts(artifacts.dir, b"another key")
    assert other.keep(DATA, "bash") != path


def test_a_label_cannot_lead_out_of_the_folder(artifacts):
    path = artifacts.keep(DATA, "../../etc/x y")
    assert Path(path).parent == artifacts.dir


def test_something_put_at_a_guessed_name_is_replaced_and_not_followed(artifacts, tmp_path):
    path = artifacts.keep(DATA, "bash")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    Path(path).unlink()
    Path(path).symlink_to(victim)
    assert artifacts.keep(DATA, "bash") == path
    assert not Path(path).is_symlink()
    assert victim.read_text() == "precious"


def test_a_torn_file_of_that_name_is_made_whole(artifacts):
    path = artifacts.keep(DATA, "bash")
    Path(path).write_bytes(DATA[:5])
    artifacts.keep(DATA, "bash")
    assert Path(path).read_bytes() == DATA


def test_many_at_once_end_with_one_whole_file(artifacts):
    paths = []
    threads = [
        threading.Thread(target=lambda: paths.append(artifacts.keep(DATA, "bash")))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(paths) == {str(path) for path in artifacts.dir.iterdir()}
    assert len(set(paths)) == 1


def test_two_processes_at_once_agree(artifacts):
    code = (
        "import sys; from pathlib import Path; from unipi.tools.artifacts import Artifacts;"
        "print(Artifacts(Path(sys.argv[1]), b'k' * 32).keep(b'output\\n' * 10_000, 'bash'))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, artifacts.dir], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    said = {child.communicate()[0].decode().strip() for child in children}
    assert said == {artifacts.keep(DATA, "bash")}
    assert len(list(artifacts.dir.iterdir())) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_made_is_a_note(tmp_path):
    tmp_path.chmod(0o500)
    artifacts = Artifacts(tmp_path / "artifacts", KEY)
    assert "not kept" in bound_output(DATA, label="x", artifacts=artifacts).text
    tmp_path.chmod(0o700)


def test_cleaning_removes_the_old_then_the_oldest_and_nothing_foreign(artifacts):
    paths = [artifacts.keep(bytes([65 + i]) * 1_000, "x") for i in range(4)]
    for age, path in zip((9_000, 300, 200, 100), paths, strict=True):
        now = Path(path).stat().st_mtime
        os.utime(path, (now - age, now - age))
    (artifacts.dir / "notes.txt").write_text("mine")
    assert artifacts.clean(max_age=5_000, max_bytes=2_000) == 2
    left = {path.name for path in artifacts.dir.iterdir()}
    assert left == {"notes.txt", *(Path(path).name for path in paths[2:])}


def test_cleaning_where_nothing_is_creates_nothing(artifacts):
    assert artifacts.clean(max_age=1, max_bytes=1) == 0
    assert not artifacts.dir.exists()


def test_the_key_is_not_shown():
    assert "kkkk" not in repr(Artifacts(None, KEY))
