"""Plots as SVG, written by hand: nothing has to be installed to make them, and no script runs to show them.

Each function gives one whole <svg>, which stands in a file of its own or inside HTML. It is drawn 860 units
wide, so that text is as large as it says where a page shows it 860 pixels wide.

A server has the same colour and the same marker in every plot. Those that are not known by name share what is
left; who makes several plots passes the same `styles` to all of them, so that no two servers are mixed up.
"""
import math
import textwrap
import typing
import zlib
from xml.sax.saxutils import escape, quoteattr

WIDTH, LEFT, RIGHT = 860, 78, 20
TEXT, TITLE, LINE = 13, 16, 18
INK, GRID = "#222222", "#d9d9d9"


class Style(typing.NamedTuple):
    colour: str
    # The path of a marker around 0,0, for those who cannot go by the colour.
    marker: str


class Panel(typing.NamedTuple):
    """One of the plots of over_time()."""

    y_label: str
    # {server: [curve, ...]}, of each round one curve; a curve is [(seconds, value), ...].
    curves: dict
    log_y: bool = False


CIRCLE, SQUARE = "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", "M-4,-4h8v8h-8z"
TRIANGLE, DIAMOND = "M0,-5l5,9h-10z", "M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z"
# Of the palette of Okabe and Ito, which is told apart with any kind of colour blindness.
KNOWN = {"Cassandra": Style("#d55e00", SQUARE), "Helenus": Style("#0072b2", CIRCLE),
         "limit": Style("#666666", TRIANGLE)}
OTHERS = [Style("#009e73", DIAMOND), Style("#cc79a7", TRIANGLE), Style("#e69f00", CIRCLE),
          Style("#56b4e9", SQUARE), Style("#000000", DIAMOND)]


def styles_of(names):
    """{server: Style}; of an unknown server by its name, and another one if that is taken."""
    found = {name: KNOWN[name] for name in names if name in KNOWN}
    for name in sorted(set(names) - set(KNOWN)):
        first = zlib.crc32(name.encode()) % len(OTHERS)
        turns = OTHERS[first:] + OTHERS[:first]
        found[name] = next((style for style in turns if style not in found.values()), turns[0])
    return found


# --- numbers ----------------------------------------------------------------


def number(value):
    """A figure with three digits that count, and all of those before the point."""
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    digits = next((digits for digits, least in enumerate((10, 1, 0.1, 0.01), 1) if abs(value) >= least), 0)
    return f"{value:.{digits}f}" if digits else f"{value:.2g}"


def short(value):
    """A tick's label."""
    return f"{value / 1e6:.10g}M" if abs(value) >= 1e6 else f"{value:,.10g}"


def brief(value):
    """A figure that fits above a bar."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= max(unit, 1e5):
            return number(value / unit) + letter
    return number(value)


def drawable(*values, log=False):
    """Whether there are such points: None is what was not measured, and a logarithm wants more than 0."""
    return all(value is not None and math.isfinite(value) and (value > 0 or not log) for value in values)


def round_ticks(low, high, count=5):
    """Multiples of 1, 2, 2.5 or 5 from below `low` to above `high`, of which there are `count` or so."""
    if high <= low:
        high = low + (abs(low) or 1)
    decade = 10 ** math.floor(math.log10((high - low) / count))
    step = next(decade * factor for factor in (1, 2, 2.5, 5, 10, 20) if (high - low) / (decade * factor) <= count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{tick * step:.12g}") for tick in range(first, last + 1)]


def log_ticks(low, high):
    """1, 2 and 5 of each power of ten from below `low` to above `high`; the powers alone if those are many."""
    for factors in ((1, 2, 5), (1,)):
        powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 2)
        every = [float(f"{factor}e{power}") for power in powers for factor in factors]
        first = max(index for index, tick in enumerate(every) if tick <= low)
        last = min(index for index, tick in enumerate(every) if tick >= high)
        ticks = every[first:max(last, first + 1) + 1]
        if len(ticks) <= 9:
            break
    return ticks


class Axis:
    """Values of one direction as units of the drawing, from `first` (the low end) to `last`."""

    def __init__(self, low, high, first, last, ticks, log=False):
        self.first, self.last, self.log, self.ticks = first, last, log, ticks
        self.low, self.high = self.scaled(low), self.scaled(high)

    @classmethod
    def rounded(cls, values, first, last, log=False):
        """Begins and ends at a tick; at zero, unless it is logarithmic."""
        ticks = log_ticks(min(values), max(values)) if log else round_ticks(min(0, *values), max(0, *values))
        return cls(ticks[0], ticks[-1], first, last, ticks, log)

    @classmethod
    def exact(cls, low, high, first, last, log=False, ticks=None):
        """Begins and ends at what is given."""
        if high <= low:
            low, high = (low / 2, low * 2) if log else (low, low + 1)
        ticks = ticks or (log_ticks(low, high) if log else round_ticks(low, high, 8))
        return cls(low, high, first, last, [tick for tick in ticks if low <= tick <= high], log)

    def scaled(self, value):
        return math.log(value) if self.log else value

    def at(self, value):
        share = (self.scaled(value) - self.low) / (self.high - self.low)
        # What lies below a logarithmic axis ends at it.
        return self.first + max(0, min(1, share)) * (self.last - self.first)


# --- pieces -----------------------------------------------------------------


def text(x, y, what, anchor="start", size=TEXT, more=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{INK}"{more}>'
            f'{escape(str(what))}</text>')


def line(x1, y1, x2, y2, colour, width=1, opacity=1):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width}" stroke-opacity="{opacity}"/>')


def rectangle(left, top, right, bottom, colour):
    return (f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" '
            f'fill="{colour}"/>')


def polyline(points, colour, width=2):
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def marker(x, y, style):
    return f'<path d="{style.marker}" transform="translate({x:.1f},{y:.1f})" fill="{style.colour}"/>'


def whisker(x, low, high, colour):
    """From the least to the most that was measured."""
    return [line(x, low, x, high, colour, 1.5), line(x - 4, low, x + 4, low, colour, 1.5),
            line(x - 4, high, x + 4, high, colour, 1.5)]


def wrapped(what, width, size=TEXT, most=3):
    """Lines of a text that is to be so wide; a letter is half as wide as it is high, and a bit."""
    letters = max(4, int(width / size / 0.56))
    return textwrap.wrap(str(what), letters, max_lines=most, placeholder=" …") or [""]


def svg(height, title, parts, width=WIDTH):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img" '
        f'aria-label={quoteattr(str(title))} font-family="sans-serif" font-size="{TEXT}">',
        '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"


def nothing(title):
    return svg(70, title, [*heading(title)[0], text(LEFT, 55, "nothing measured")])


def heading(title, names=(), styles=None, width=WIDTH):
    """The title and the legend below it, and where the drawing may begin."""
    parts, y = [], 6
    for row in wrapped(title, width - 2 * RIGHT, TITLE):
        y += LINE + 2
        parts.append(text(RIGHT, y, row, size=TITLE, more=' font-weight="bold"'))
    x, y = RIGHT + 6, y + (LINE + 6 if names else 0)
    for name in names:
        wide = 30 + 0.56 * TEXT * len(name)
        if x + wide > width - RIGHT and x > RIGHT + 6:
            x, y = RIGHT + 6, y + LINE
        parts += [marker(x, y - 4, styles[name]), text(x + 10, y, name)]
        x += wide
    return parts, y + 12


def frame(x, y, y_label, x_label=""):
    """The grid with its labels: those of y at the left, those of x below it if they have room."""
    parts = [text(RIGHT, y.last - 10, y_label)]
    for tick in y.ticks:
        parts += [line(x.first, y.at(tick), x.last, y.at(tick), GRID),
                  text(x.first - 6, y.at(tick) + 4, short(tick), "end")]
    free = -math.inf
    for tick in x.ticks:
        parts.append(line(x.at(tick), y.first, x.at(tick), y.last, GRID))
        half = 0.3 * TEXT * len(short(tick))
        if x.at(tick) - half > free:
            parts.append(text(x.at(tick), y.first + LINE, short(tick), "middle"))
            free = x.at(tick) + half + 4
    return parts + [text((x.first + x.last) / 2, y.first + 2 * LINE + 2, x_label, "middle")]


# --- plots ------------------------------------------------------------------


def lines(title, x_label, y_label, series, log_x=False, log_y=False, size=(WIDTH, 400), styles=None):
    """Curves of medians. `series` is {server: [(x, median, least, most), ...]}."""
    usable = lambda point: drawable(point[0], log=log_x) and drawable(*point[1:], log=log_y)
    series = {name: sorted(filter(usable, points)) for name, points in series.items()}
    series = {name: points for name, points in series.items() if points}
    if not series:
        return nothing(title)
    styles = styles or styles_of(series)
    width, height = size
    parts, top = heading(title, series, styles, width)
    points = [point for points in series.values() for point in points]
    measured = sorted({point[0] for point in points})
    # Of a logarithmic axis of few places, as numbers of threads, the places themselves are of interest.
    marks = measured if log_x and len(measured) <= 16 else None
    x = Axis.exact(measured[0], measured[-1], LEFT, width - RIGHT - 10, log_x, marks)
    y = Axis.rounded([value for point in points for value in point[1:]], height - 48, top + 24, log_y)
    parts += frame(x, y, y_label, x_label)
    for name, points in series.items():
        style = styles[name]
        for place, _, low, high in points:
            parts += whisker(x.at(place), y.at(low), y.at(high), style.colour)
        drawn = [(x.at(point[0]), y.at(point[1])) for point in points]
        parts += [polyline(drawn, style.colour), *(marker(*at, style) for at in drawn)]
    return svg(height, title, parts, width)


def bars(title, y_label, groups, styles=None):
    """Bars side by side. `groups` is {case: {server: (median, least, most)}}; many of them take several rows."""
    groups = {case: {name: spread for name, spread in group.items() if drawable(*spread)}
              for case, group in groups.items()}
    groups = {case: group for case, group in groups.items() if group}
    if not groups:
        return nothing(title)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    styles = styles or styles_of(names)
    parts, top = heading(title, names, styles)
    values = [value for group in groups.values() for spread in group.values() for value in spread]
    rows, height = bar_rows(groups), 230
    slot = min(64, (WIDTH - LEFT - RIGHT) / max(slots(row) for row in rows))
    for row in rows:
        y = Axis.rounded(values, top + height, top + 36)
        parts += frame(Axis(0, 1, LEFT, WIDTH - RIGHT, []), y, y_label)
        x = LEFT + slot / 2
        for case in row:
            parts += bar_group(case, groups[case], x, slot, y, styles)
            x += slot * (len(groups[case]) + 1)
        top += height + 3 * LINE + 8
    return svg(top, title, parts)


def slots(row_of_groups):
    """How many bars a row has room for, with one of them as the gap of each group."""
    return sum(len(group) + 1 for group in row_of_groups.values())


def bar_rows(groups, least=40):
    """The groups dealt out to rows of about the same length, in which a bar's label has room."""
    needed = math.ceil(slots(groups) * least / (WIDTH - LEFT - RIGHT))
    length = slots(groups) / needed
    rows = [{}]
    for case, group in groups.items():
        most = (WIDTH - LEFT - RIGHT) // least
        full = slots(rows[-1]) >= length or slots(rows[-1]) + len(group) + 1 > most
        if rows[-1] and full:
            rows.append({})
        rows[-1][case] = group
    return rows


def bar_group(case, group, x, slot, y, styles):
    """The bars of one case from `x` on, each with its value above it, and the case below them."""
    parts = []
    for index, (name, (median, low, high)) in enumerate(group.items()):
        left, middle = x + index * slot, x + (index + 0.5) * slot
        parts.append(rectangle(left + 2, y.at(median), left + slot - 2, y.first, styles[name].colour))
        parts += whisker(middle, y.at(low), y.at(high), INK)
        parts.append(text(middle, y.at(max(median, high)) - 6, brief(median), "middle", TEXT - 1))
    middle = x + len(group) * slot / 2
    for index, row in enumerate(wrapped(case, (len(group) + 0.9) * slot)):
        parts.append(text(middle, y.first + LINE * (index + 1), row, "middle"))
    return parts


def over_time(title, panels, styles=None):
    """What changed over the seconds, one panel below the other. A curve has a gap where it was not measured."""
    panels = [Panel(*panel) for panel in panels]
    points = [point for panel in panels for curves in panel.curves.values() for curve in curves for point in curve]
    if not any(drawable(*point) for point in points):
        return nothing(title)
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    styles = styles or styles_of(names)
    parts, top = heading(title, names, styles)
    x = Axis.exact(0, max(at for at, value in points if drawable(at)), LEFT, WIDTH - RIGHT - 10)
    for panel in panels:
        runs = {name: [run for curve in curves for run in unbroken(curve, panel.log_y)]
                for name, curves in panel.curves.items()}
        values = [value for found in runs.values() for run in found for _, value in run]
        # A panel of nothing keeps its place.
        y = Axis.rounded(values or [1], top + 170, top + 26, panel.log_y)
        parts += frame(x, y, panel.y_label, "seconds" if panel is panels[-1] else "")
        for name, found in runs.items():
            parts += [polyline([(x.at(at), y.at(value)) for at, value in run], styles[name].colour, 1.5)
                      for run in found]
        top += 170 + LINE + 10
    return svg(top + LINE, title, parts)


def unbroken(curve, log=False):
    """A curve in pieces that have all their points."""
    found = [[]]
    for at, value in curve:
        if drawable(at) and drawable(value, log=log):
            found[-1].append((at, value))
        elif found[-1]:
            found.append([])
    return [run for run in found if run]
