"""Fifty prompts, made by rule: of many lengths, with stems that several share, cut anywhere in a block."""

import random

COUNT = 50
_SEED = 15
_STEMS = (("harbour log", "the pilot boat", "north pier"), ("night register", "the lamp keeper", "west tower"),
          ("garden journal", "the old pear tree", "south wall"), ("mill account", "the grinding stone", "upper race"),
          ("station diary", "the slow train", "third platform"))
_WORDS = ("copper", "linen", "walnut", "barley", "slate", "amber", "willow", "cobalt", "saffron", "granite", "velvet",
          "juniper", "marble", "clover", "hazel", "onyx")


def make_prompts() -> list[str]:
    """Returns the prompts, the same in every run.

    Each begins with some lines of one of five stems and goes on with lines of its own, the last of which is not
    ended. Lengths are from a few tokens, less than a block, to some 700.
    """
    chance = random.Random(_SEED)
    stems = [[_line(chance, *stem, number) for number in range(1, 31)] for stem in _STEMS]
    prompts = []
    for number in range(COUNT):
        stem = number % len(_STEMS)
        shared = 0 if number < len(_STEMS) else round(2 + 20 * chance.random() ** 2.2)
        page = f"page {number + 1}"
        own = [_line(chance, page, *_STEMS[stem][1:], line) for line in range(1, chance.randrange(2, 6))]
        text = " ".join([*stems[stem][:shared], *own])
        prompts.append(text[:len(text) - chance.randrange(1, 24)])
    return prompts


def _line(chance: random.Random, book: str, subject: str, place: str, number: int) -> str:
    return (f"{book.capitalize()}, entry {number}: {subject} was seen at the {place}, {chance.randrange(2, 99)} paces "
            f"from the {chance.choice(_WORDS)} {chance.choice(_WORDS)} chest.")
