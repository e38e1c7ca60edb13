"""Figure of heads over training: the accuracy above, the drop of every head at every kept step below."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from headway.reports.panels import colour_bar, colour_scale, drawing, new_figure, percent_axis
from headway.reports.style import BLUE, DASHED, GREY, RED, SMALL
from headway.results.over_training import JUMP, OverTraining


@drawing
def over_training(found: OverTraining, *, narrow: bool = False) -> Figure:
    """Steps from left to right; a dark row below is a head that the model cannot do without."""
    figure = new_figure(
        f"Heads over training: {found.run.rpartition('/')[2]}",
        f"zero ablation of one head at a time, {found.n:,} examples; a drop cannot exceed the accuracy",
        narrow=narrow,
    )
    width = 2.2 if narrow else 5.4
    above, below = figure.subplots(2, 1, height_ratios=[1.3, 0.135 * max(8, len(found.heads))], width_ratios=[width])
    curves(above, found)
    heat(below, found, most_labels=4 if narrow else 8)
    largest = max(1.0, *(drop for one in found.steps for drop in one.drops))
    scale = colour_scale(0, largest, "Blues")
    below.collections[0].set(cmap=scale.cmap, norm=scale.norm)
    colour_bar([below], scale, "drop in points", ticks=[0, largest / 2, largest], format="%.0f")
    figure.legend(handles=above.get_lines()[: 3 if found.followed else 1], loc="outside upper left", fontsize=SMALL)
    return figure


def curves(axes: Axes, found: OverTraining) -> None:
    """The accuracy with its interval, and the flip rate and logit share of the followed head."""
    places = [index + 0.5 for index in range(len(found.steps))]
    low, high = zip(*(one.interval for one in found.steps), strict=True)
    axes.fill_between(places, low, high, color=BLUE, alpha=0.22, linewidth=0)
    axes.plot(places, found.accuracies(), color=BLUE, linewidth=1.4, label="right answers, with 95 % interval")
    if found.followed:
        for values, line, label in (
            (found.rates_of(found.followed), "-", "flip rate"),
            (found.effects_of(found.followed), DASHED, "share of the logit difference"),
        ):
            shown = [float("nan") if value is None else value for value in values]
            axes.plot(places, shown, color=RED, linewidth=1.0, linestyle=line, label=f"{found.followed}: {label}")
    axes.axhline(JUMP, color=GREY, linewidth=0.6)
    axes.set(xlim=(0, len(places)), ylim=(-0.03, 1.03), xticks=[])
    percent_axis(axes.yaxis)


def heat(axes: Axes, found: OverTraining, *, most_labels: int) -> None:
    """One row for each head, one column for each step."""
    axes.pcolormesh([[one.drops[index] for one in found.steps] for index in range(len(found.heads))])
    every = -(-len(found.steps) // most_labels)
    shown = range(0, len(found.steps), every)
    axes.set_xticks([index + 0.5 for index in shown], [f"{found.steps[index].step:,}" for index in shown])
    axes.set_yticks([index + 0.5 for index in range(len(found.heads))], found.heads)
    axes.invert_yaxis()
    axes.set_xlabel("training step")
