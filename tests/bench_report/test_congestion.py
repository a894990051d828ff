"""TCP's congestion control while one measures."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

from congestion import Congestion  # noqa: E402


def test_it_is_set_and_the_machine_has_its_own_back(tmp_path):
    control = tmp_path / "tcp_congestion_control"
    control.write_text("bbr\n")
    congestion = Congestion("cubic", control)
    assert (congestion.value(), congestion.note) == ("cubic", None)
    congestion.restore()
    assert control.read_text() == "bbr"


def test_what_is_as_wanted_is_not_written(tmp_path):
    control = tmp_path / "tcp_congestion_control"
    control.write_text("cubic\n")
    congestion = Congestion("cubic", control)
    congestion.restore()
    assert (control.read_text(), congestion.note) == ("cubic\n", None)


def test_where_it_may_not_be_set_the_report_says_what_it_is(tmp_path):
    class ReadOnly:
        def read_text(self):
            return "bbr\n"

        def write_text(self, _):
            raise PermissionError("not permitted")

    congestion = Congestion("cubic", ReadOnly())
    congestion.restore()
    assert congestion.note.startswith("the congestion control of TCP is bbr and could not be set to cubic (not permitted)")
    nowhere = Congestion("cubic", tmp_path / "none")
    assert "is unknown and could not be set" in nowhere.note
