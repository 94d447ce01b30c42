"""The data of the lessons: shapes, ranges, and always the same."""

import torch

from distlib.training.datasets import digits


def test_digits_have_the_shapes_and_ranges_that_are_promised() -> None:
    for images, labels in digits():
        assert images.shape == (len(labels), 1, 8, 8) and images.dtype == torch.float32
        assert labels.dtype == torch.int64
        assert (images.min(), images.max()) == (0, 1)
        assert sorted(set(labels.tolist())) == list(range(10))


def test_digits_are_split_without_overlap_and_without_loss() -> None:
    train, test = digits()
    together = torch.cat([train.images, test.images]).reshape(-1, 64) * 16
    assert len(train.labels) == 1_536 and len(test.labels) == 261
    assert torch.equal(together, together.round()) and together.unique().tolist() == list(range(17))
    assert len(together.unique(dim=0)) == 1_797
    frequencies = torch.bincount(torch.cat([train.labels, test.labels]))
    assert frequencies.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180], "those of the source"


def test_digits_are_the_same_in_every_call_and_can_be_changed() -> None:
    (first, _), (second, _) = digits(), digits()
    assert torch.equal(first.images, second.images) and torch.equal(first.labels, second.labels)
    first.images.zero_()
    assert second.images.max() == 1


def test_every_digit_is_about_as_frequent_in_both_parts() -> None:
    for _, labels in digits():
        shares = torch.bincount(labels) / len(labels)
        assert 0.05 < shares.min() and shares.max() < 0.15
