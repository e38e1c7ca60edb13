"""Made-up documents of heads over training."""

from collections.abc import Sequence

from headway.results.over_training import ContrastAtStep, HeadsAtStep, OverTraining

NAMES = ("enc0.self.h0", "dec0.cross.h0")


def made_up(
    accuracies: Sequence[float], drops: Sequence[float], steps: Sequence[int], names: tuple[str, ...] = NAMES
) -> OverTraining:
    """A run of which the second head has these drops; its patch moves as much as it costs."""
    rows = []
    others = len(names) - 2
    for step, accuracy, drop in zip(steps, accuracies, drops, strict=True):
        usable, flips = round(20 * accuracy), round(20 * accuracy * drop / 100)
        contrast = ContrastAtStep(
            name="carry into tens",
            about="carry",
            n=20,
            usable=usable,
            difference=8 * accuracy,
            flips=(0, flips, *[0] * others),
            moved=(0.0, 8 * accuracy * drop / 100, *[0.0] * others),
        )
        rows.append(
            HeadsAtStep(
                step=step,
                accuracy=accuracy,
                interval=(max(0.0, accuracy - 0.1), min(1.0, accuracy + 0.1)),
                loss=2.0 - accuracy,
                drops=(0.5, float(drop), *[0.0] * others),
                intervals=((0.0, 1.0), (drop - 2.0, drop + 2.0), *[(0.0, 1.0)] * others),
                contrasts=(contrast,),
            )
        )
    return OverTraining(
        run="runs/made-up",
        task="addition",
        seed=3,
        split="test",
        n=200,
        pairs=40,
        seconds=1.0,
        heads=names,
        groups=names,
        subject="carry",
        followed=names[1],
        steps=tuple(rows),
    )
