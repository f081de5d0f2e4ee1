"""One picture of a clip, looked at pixel by pixel."""

import numpy as np

from crosstraj.clips.scenes import Moment
from crosstraj.clips.tiles import (
    COLOUR,
    HEAD,
    INK,
    PANEL,
    Clip,
    Company,
    layout,
    pictures,
    written,
)

NOTHING = np.zeros(0, np.float32)  # is remembered
RED, BLUE = (255, 0, 0), (0, 0, 255)


def moment(colour: tuple[int, int, int], **changes: object) -> Moment:
    frame = np.broadcast_to(np.array(colour, np.uint8), (64, 64, 3))
    whole = Moment(frame, NOTHING, "unseen", 7, 0, 0, 1, 0.0, 0.0, 1.0, "")
    return whole._replace(**changes)


def clip(tiles: list[list[Moment]], company: list[list[Company]] | None = None) -> Clip:
    return Clip("a clip", tiles, ["left", "right"], 1, company)


def middle(image, where, place):
    left, top = place.corner(where)
    return image.getpixel((left + place.width // 2, top + HEAD + place.height // 2))


def test_each_tile_has_its_own_frame_and_the_next_picture_the_next():
    film = clip([[moment(RED), moment(BLUE, step=1)], [moment(BLUE), moment(RED, step=1)]])
    place = layout(film)
    first, second = pictures(film)
    assert [middle(first, tile, place) for tile in (0, 1)] == [RED, BLUE]
    assert [middle(second, tile, place) for tile in (0, 1)] == [BLUE, RED]
    assert first.size == place.size
    assert not any(side % 2 for side in place.size)


def test_five_tiles_stand_in_two_rows_and_none_covers_another():
    film = clip([[moment(RED)] for _ in range(5)])
    place = layout(film)
    assert (place.columns, place.rows) == (3, 2)
    corners = [place.corner(number) for number in range(5)]
    assert corners[3][0] == corners[0][0]
    assert corners[1][0] - corners[0][0] > place.width
    assert corners[3][1] - corners[0][1] > HEAD + place.height


def test_seen_and_unseen_are_told_apart_by_colour():
    for split in ("seen", "unseen"):
        (image,) = pictures(clip([[moment(RED, split=split)]]))
        colours = {colour for _, colour in image.getcolors(10**6)}
        assert COLOUR[split] in colours
        assert COLOUR["unseen" if split == "seen" else "seen"] not in colours


def test_an_ending_darkens_its_last_frame_and_stays_for_some_pictures():
    tile = [moment(RED, ending="solved"), *(moment(BLUE, episode=1) for _ in range(11))]
    film = clip([tile])
    place = layout(film)
    corner = tuple(pixel + add for pixel, add in zip(place.corner(0), (5, HEAD + 5), strict=True))
    seen = [image.getpixel(corner) for image in pictures(film)]
    assert seen == [(102, 0, 0)] * 9 + [BLUE] * 3


def test_a_higher_value_is_drawn_higher_up():
    tiles = [[moment(RED, value=0.0)], [moment(RED, value=1.0)]]
    (image,) = pictures(clip(tiles))
    place = layout(clip(tiles))

    def mark(tile: int) -> int:
        left, top = place.corner(tile)
        right, below = left + place.width, top + HEAD + place.height
        strip = image.crop((right - 84, below, right, below + 24))
        rows = np.argwhere((np.array(strip) == INK).all(-1))[:, 0]
        return int(rows.mean())

    assert mark(1) < mark(0)


def test_frames_of_the_same_cluster_stand_beside_theirs():
    blue = np.broadcast_to(np.array(BLUE, np.uint8), (64, 64, 3))
    film = clip([[moment(RED)]], [[Company(3, (blue,))]])
    place = layout(film)
    (image,) = pictures(film)
    left, top = place.corner(0)
    x = left + place.width + 8 + place.side // 2
    assert image.getpixel((x, top + HEAD + place.side // 2)) == BLUE
    assert image.getpixel((x, top + HEAD + place.side + 4 + place.side // 2)) == PANEL
    (plain,) = pictures(clip([[moment(RED)]]))
    assert plain.size[0] < image.size[0]


def test_no_letter_is_cut_off_by_its_stamp():
    for text in ("return -12.5", "gjpqy|", "level 1284779239"):
        for size in (12, 13, 18):
            stamp, wide = np.array(written(text, size)), np.array(written(f"  {text}  ", size))
            assert (stamp > 0).sum() > 20
            assert not stamp[-1].any()
            assert (wide > 128).sum() == (stamp > 128).sum()
