"""Whatever a container sends, only plain files below the asked path are taken, and every refusal is named."""

import io
import tarfile
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.wire.tar_reader import Limits, Room, Unpacked, unpack
from tests.wire.archives import END, Member, Memory, archive, chunks, long_named

LIMITS = Limits(bytes=10_000, files=20)
GOOD = Member(b"logs/agent/good.txt", b"kept")


def read(data: bytes, asked: str = "/logs/agent", limits: Limits = LIMITS) -> tuple[Unpacked, Memory]:
    place = Memory()
    return unpack(chunks(data), asked, place, limits), place


def codes(result: Unpacked) -> list[str]:
    return [refusal.code for refusal in result.refusals]


def test_a_folder_comes_with_its_files_and_nothing_is_refused() -> None:
    result, place = read(
        archive(
            Member(b"logs/agent/", kind=b"5"),
            Member(b"logs/agent/deep/", kind=b"5"),
            Member(b"logs/agent/deep/a.txt", b"x" * 1500),
            Member(b"logs/agent/empty"),
        )
    )
    assert (result.root, result.files, result.size, result.complete) == ("directory", 2, 1500, True)
    assert place.files == {"deep/a.txt": b"x" * 1500, "empty": b""}
    assert result.refusals == []


def test_a_single_file_is_its_own_root() -> None:
    result, place = read(archive(Member(b"logs/agent", b"whole")))
    assert (result.root, result.complete, place.files) == ("file", True, {"": b"whole"})


@pytest.mark.parametrize("modified", [0, 1_700_000_000, 2**40, -1, -(2**40)])
def test_the_time_that_a_file_had_in_its_container_is_read(modified: int) -> None:
    result, _ = read(archive(Member(b"logs/agent/a", b"x", modified=modified)))
    assert result.complete
    assert result.modified == {"a": modified}


def test_an_archive_without_members_has_no_root() -> None:
    result, _ = read(END)
    assert (result.root, result.members, result.complete) == (None, 0, True)


def test_long_names_are_read_whole() -> None:
    name = b"logs/agent/" + b"/".join([b"n" * 90] * 3)
    result, place = read(archive(*long_named(name, b"deep")))
    assert place.files == {"/".join(["n" * 90] * 3): b"deep"}
    assert result.complete


@pytest.mark.parametrize(
    ("member", "code"),
    [
        pytest.param(Member(b"logs/agent/l", kind=b"2"), "link", id="symbolic link"),
        pytest.param(Member(b"logs/agent/h", kind=b"1"), "hard_link", id="hard link"),
        pytest.param(Member(b"logs/agent/c", kind=b"3"), "device", id="character device"),
        pytest.param(Member(b"logs/agent/b", kind=b"4"), "device", id="block device"),
        pytest.param(Member(b"logs/agent/p", kind=b"6"), "fifo", id="fifo"),
        pytest.param(Member(b"/etc/passwd", b"x"), "absolute", id="absolute name"),
        pytest.param(Member(b"logs/agent/../../etc", b"x"), "parent", id="name with .."),
        pytest.param(Member(b"etc/passwd", b"x"), "outside", id="outside the asked path"),
        pytest.param(Member(b"logs/agentx", b"x"), "outside", id="same beginning, another folder"),
        pytest.param(Member(b"logs/agent//a", b"x"), "name", id="empty component"),
        pytest.param(Member(b"logs/agent/./a", b"x"), "name", id="dot component"),
        pytest.param(Member(b"logs/agent/\xff", b"x"), "name", id="not UTF-8"),
        pytest.param(Member(b"logs/agent/a\nb", b"x"), "name", id="control character"),
        pytest.param(Member(b"logs/agent/good.txt", b"again"), "duplicate", id="duplicate name"),
        pytest.param(Member(b"logs/agent/good.txt/below", b"x"), "conflict", id="file used as a folder"),
        pytest.param(Member(b"logs/agent/good.txt", kind=b"5"), "duplicate", id="folder over a file"),
    ],
)
def test_a_forbidden_member_is_refused_by_name_and_the_others_are_kept(member: Member, code: str) -> None:
    after = Member(b"logs/agent/after.txt", b"too")
    result, place = read(archive(GOOD, member, after))
    assert codes(result) == [code]
    assert place.files == {"good.txt": b"kept", "after.txt": b"too"}
    assert result.complete


@pytest.mark.parametrize(
    ("member", "code"),
    [
        pytest.param(Member(b"logs/agent/big", b"x", size=10_001), "too_large", id="larger than the bound"),
        pytest.param(Member(b"logs/agent/huge", b"", size=2**40), "too_large", id="a terabyte that is not there"),
        pytest.param(Member(b"logs/agent/s", b"x", kind=b"S"), "sparse", id="sparse file"),
        pytest.param(Member(b"logs/agent/x", b"path=/etc\n", kind=b"x"), "format", id="pax header"),
        pytest.param(Member(b"logs/agent/g", b"path=/etc\n", kind=b"g"), "format", id="global pax header"),
        pytest.param(Member(b"logs/agent/V", kind=b"V"), "format", id="volume header"),
        pytest.param(Member(b"logs/agent/d", b"x", kind=b"5"), "format", id="folder with data"),
        pytest.param(Member(b"logs/agent/l", b"x", kind=b"2"), "format", id="link with data"),
        pytest.param(Member(b"logs/agent/c", b"x", checksum=1), "checksum", id="wrong checksum"),
        pytest.param(Member(b"logs/agent/m", b"x", magic=bytes(8)), "format", id="no magic"),
        pytest.param(Member(b"logs/agent/n", b"x", size=-5), "too_large", id="negative size"),
    ],
)
def test_what_cannot_be_skipped_ends_the_reading_and_keeps_what_came_before(member: Member, code: str) -> None:
    result, place = read(archive(GOOD, member, Member(b"logs/agent/after.txt", b"never")))
    assert codes(result)[-1] == code
    assert place.files == {"good.txt": b"kept"}
    assert not result.complete


def test_the_sum_of_all_files_is_bounded_not_only_each() -> None:
    files = [Member(b"logs/agent/%d" % number, b"x" * 3_000) for number in range(5)]
    result, place = read(archive(*files))
    assert codes(result) == ["too_large"]
    assert len(place.files) == 3


def test_the_count_of_members_is_bounded() -> None:
    result, place = read(archive(*(Member(b"logs/agent/%d" % number) for number in range(30))))
    assert codes(result) == ["too_many"]
    assert len(place.files) == LIMITS.files


def test_folders_that_are_only_parts_of_names_count_as_members() -> None:
    """Otherwise each member could make thirty, and the disk end by what nobody counted."""
    deep = [Member(b"logs/agent/%d/" % number + b"/".join([b"d"] * 29) + b"/f") for number in range(3)]
    result, place = read(archive(*deep), limits=Limits(bytes=1000, files=40))
    assert codes(result) == ["too_many"]
    assert len(place.files) == 1


def test_an_archive_that_is_as_large_as_is_allowed_is_taken_whole() -> None:
    folders = [Member(b"logs/agent/a/", kind=b"5"), Member(b"logs/agent/a/b/", kind=b"5")]
    files = [Member(b"logs/agent/a/b/%d" % number) for number in range(LIMITS.files - 2)]
    result, place = read(archive(*folders, *files))
    assert result.complete and len(place.files) == LIMITS.files - 2


def test_a_million_members_end_at_the_bound_without_being_read() -> None:
    made = 0

    def endless() -> Iterator[bytes]:
        nonlocal made
        while made < 1_000_000:
            made += 1
            yield Member(b"logs/agent/%d" % made).blocks()

    result = unpack(endless(), "/logs/agent", Memory(), LIMITS)
    assert result.ended_by == "too_many"
    assert made == LIMITS.files + 1


@pytest.mark.parametrize(
    ("member", "code"),
    [
        pytest.param(Member(b"logs/agent/p", b"27 path=../../../../etc/x\n\n\n", kind=b"x"), "format", id="PAX"),
        pytest.param(Member(b"logs/agent/p", b"27 path=../../../../etc/x\n\n\n", kind=b"g"), "format", id="global PAX"),
        pytest.param(Member(b"logs/agent/s", kind=b"S"), "sparse", id="sparse"),
        pytest.param(Member(b"logs/agent/h", kind=b"1"), "hard_link", id="hard link"),
        pytest.param(Member(b"logs/agent/c", kind=b"3"), "device", id="character device"),
        pytest.param(Member(b"logs/agent/b", kind=b"4"), "device", id="block device"),
        pytest.param(Member(b"logs/agent/z", kind=b"7"), "format", id="contiguous"),
        pytest.param(Member(b"logs/agent/z", kind=b"D"), "format", id="dump of a folder"),
        pytest.param(Member(b"logs/agent/z", kind=b"M"), "format", id="rest of another volume"),
        pytest.param(Member(b"logs/agent/z", size=2**63), "too_large", id="more than there is disk"),
        pytest.param(Member("logs/agent/\u202egnp.exe".encode()), "name", id="text that turns round"),
        pytest.param(Member("logs/agent/a\u2028b".encode()), "name", id="a line's end of another kind"),
        pytest.param(Member(b"logs/agent/\xed\xa0\x80"), "name", id="half a surrogate"),
        pytest.param(Member(b"logs/agent/\xc0\xae\xc0\xae/x"), "name", id="dots that are no UTF-8"),
    ],
)
def test_what_no_transfer_needs_is_refused_by_name(member: Member, code: str) -> None:
    result, place = read(archive(member))
    assert codes(result) == [code]
    assert place.files == {} and place.directories == []


def test_a_flood_of_refusals_is_counted_but_not_all_listed() -> None:
    links = [Member(b"logs/agent/%d" % number, kind=b"2") for number in range(200)]
    result, _ = read(archive(*links), limits=Limits(bytes=10, files=500))
    assert result.refused == {"link": 200}
    assert len(result.refusals) == 50


def test_a_stream_that_ends_in_the_middle_is_not_complete_and_half_a_file_is_not_counted() -> None:
    result, _ = read(archive(GOOD, Member(b"logs/agent/cut", b"x" * 4000))[:-3000])
    assert codes(result) == ["truncated"]
    assert not result.complete


@pytest.mark.parametrize("trailer", [b"x", bytes(70_000)], ids=["more after the end", "zeros without end"])
def test_what_follows_the_end_mark_is_refused(trailer: bytes) -> None:
    result, _ = read(archive(GOOD) + trailer)
    assert codes(result) == ["format"]
    assert not result.complete


def test_a_long_name_that_leads_outside_is_refused() -> None:
    result, _ = read(archive(*long_named(b"logs/agent/" + b"a/" * 60 + b"../" * 70 + b"etc")))
    assert codes(result) == ["parent"]


def test_an_endless_long_name_is_refused() -> None:
    result, _ = read(archive(Member(b"././@LongLink", b"x", kind=b"L", size=2**30)))
    assert (codes(result), result.ended_by) == (["too_large"], "too_large")


def test_a_path_that_is_too_deep_to_be_kept_is_passed_over_and_what_follows_is_read() -> None:
    deep = b"logs/agent/" + b"d/" * 4000
    result, place = read(archive(*long_named(deep + b"x", b"deep"), GOOD))
    assert (codes(result), result.complete, place.files) == (["name"], True, {"good.txt": b"kept"})


def test_what_is_passed_over_counts_against_the_bound_like_what_is_taken() -> None:
    """Else files with odd names would be read without end, until the transfer's time is over."""
    odd = [Member(b"logs/agent/\xff%d" % number, b"x" * 3_000) for number in range(5)]
    result, _ = read(archive(GOOD, *odd))
    assert (result.ended_by, result.refused) == ("too_large", {"name": 4, "too_large": 1})


def test_what_is_taken_fits_in_whole_pages_where_it_goes_next() -> None:
    room = Room(5 * 4096)
    limits = Limits(bytes=100_000, files=100, room=room)
    first, place = read(archive(*(Member(b"logs/agent/%d" % number, b"x") for number in range(4))), limits=limits)
    assert (first.complete, len(place.files)) == (True, 4)
    second, place = read(archive(Member(b"logs/agent/a", b"x"), Member(b"logs/agent/b", b"x")), limits=limits)
    assert (second.ended_by, list(place.files)) == ("too_large", ["a"])


@given(st.binary(max_size=3000))
def test_no_bytes_make_the_reader_raise(data: bytes) -> None:
    result, place = read(data)
    assert not result.complete or not place.files


@st.composite
def _members(draw: st.DrawFn) -> Member:
    name = draw(st.sampled_from([b"logs/agent", b"logs/agent/", b"/", b"logs/agent/a/b", b"../x"]))
    name += draw(st.binary(max_size=20).filter(lambda text: b"\0" not in text))
    data = draw(st.binary(max_size=1200))
    kind = draw(st.sampled_from([b"0", b"\0", b"5", b"1", b"2", b"3", b"6", b"L", b"K", b"S", b"x", b"D"]))
    size = draw(st.none() | st.integers(-1, 12_000))
    return Member(name, data, kind=kind, size=size)


@given(st.lists(_members(), max_size=12), st.integers(1, 2000))
def test_whatever_is_made_of_headers_stays_within_the_limits_and_below_the_asked_path(
    members: list[Member], step: int
) -> None:
    place = Memory()
    result = unpack(chunks(archive(*members), step), "/logs/agent", place, LIMITS)
    taken = [*place.files, *place.directories]
    assert sum(map(len, place.files.values())) <= LIMITS.bytes
    assert len(taken) == len(set(taken)) <= LIMITS.files
    for path in taken:
        assert not path.startswith("/")
        assert ".." not in path.split("/")
        assert path.isprintable()
    if result.complete and not result.refusals:
        assert len(place.files) == result.files


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z0-9]{1,8}){0,3}", fullmatch=True), st.binary(max_size=700), max_size=8
    )
)
def test_what_a_real_tar_writes_comes_back_byte_for_byte(files: dict[str, bytes]) -> None:
    folders = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
    files = {path: data for path, data in files.items() if path not in folders}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(f"logs/agent/{path}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    result, place = read(buffer.getvalue(), limits=Limits(bytes=10_000, files=40))
    assert result.complete
    assert place.files == files


def test_a_name_that_tells_a_secret_is_passed_over_and_not_repeated() -> None:
    """Else an agent could name its output after its bearer, and one of record and evidence would have to be changed."""
    limits = Limits(bytes=10_000, files=20, tells=lambda name: "bearer" in name)
    members = [
        GOOD,
        Member(b"logs/agent/my-bearer.txt", b"x"),
        Member(b"logs/agent/bearer/", kind=b"5"),
        Member(b"logs/agent/bearer/deep.txt", b"x"),
        Member(b"logs/agent/bearer-link", kind=b"2"),
    ]
    result, place = read(archive(*members), limits=limits)
    assert result.complete and set(place.files) == {"good.txt"}
    assert [(refusal.path, refusal.code) for refusal in result.refusals] == [("[REDACTED]", "name")] * 4
