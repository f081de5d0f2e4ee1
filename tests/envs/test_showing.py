"""Frames as pictures, and actions by their names."""

import numpy as np

from crosstraj.envs.showing import action_names, action_words, newest_image


def test_actions_of_procgen_have_names_and_others_numbers():
    assert action_names("bigfish", 15)[7] == "→"
    assert action_names("ALE/Pong-v5", 6) == ["0", "1", "2", "3", "4", "5"]


def test_the_same_names_are_told_in_letters():
    words = action_words("bigfish", 15)
    assert [words[k] for k in (0, 4, 7, 8, 9)] == [
        *("left + down", "wait", "right", "right + up", "key D")
    ]
    assert all(word.isascii() for word in words)
    assert action_words("ALE/Pong-v5", 2) == ["action 0", "action 1"]


def test_of_a_stack_the_newest_image_is_shown_and_grey_as_three_colours():
    stack = np.arange(2 * 2 * 12).reshape(2, 2, 12).astype(np.uint8)
    np.testing.assert_array_equal(newest_image(stack, 4), stack[..., 9:])
    grey = newest_image(stack[..., :4], 4)
    np.testing.assert_array_equal(grey, np.repeat(stack[..., 3:4], 3, axis=-1))
