"""Numbers of a workbook as Excel shows them, by its number formats (ECMA-376, part 1, 18.8.31)."""

import math
import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne

# Pieces of a format: quoted or escaped text, fillers, brackets, signs for digits.
_PIECE = re.compile(
    r'"([^"]*)"|\\(.)|[_*](.)|\[([^\]]*)\]|(General)|([0#?][0#?,.]*|\.[0#?]+)|([Ee][+-][0#?]+)|(.)',
    re.DOTALL | re.IGNORECASE,
)
_CURRENCY = re.compile(r"\A\$([^-]*)")
_CONDITION = re.compile(r"\[(<=|>=|<>|<|>|=)\s*(-?\d*\.?\d+)")
_SECTION = re.compile(r';(?=(?:[^"]*"[^"]*")*[^"]*$)')
_FRACTION = re.compile(r"([#0?]*)\s*([#0?]+)\s*/\s*([#0?]+|\d+)")
_TIME_OF_DAY = re.compile(r"[hs]|am/pm|a/p", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"|\\.|[_*].|\[[^\]]*\]')
# Excel shows eleven digits of a number without a format; further digits are artefacts of floating point.
_DIGITS = 15
_LEAST, _MOST = -10, 16
_MAX_FORMAT = 300
_COMPARE = dict(zip("< <= = > >= <>".split(), (lt, le, eq, gt, ge, ne), strict=True))


def number_text(value: float, number_format: str) -> str:
    """Return a number as its format shows it; unchanged if the format cannot be applied."""
    if not math.isfinite(value):
        return str(value)
    if number_format.lower() in ("", "general", "@") or len(number_format) > _MAX_FORMAT:
        return plain(value)
    section, is_negative = _section_for(value, number_format)
    try:
        text = _formatted(abs(value) if is_negative else value, section)
    except (InvalidOperation, ValueError, OverflowError, ZeroDivisionError):
        return plain(value)
    # A format may show nothing, as for hidden cells.
    return text if any(map(str.isalnum, text)) else plain(value)


def plain(value: float) -> str:
    """Return a number in plain notation: 130 for 130.0, 0.00005 for 5e-05."""
    text = f"{value:.{_DIGITS}g}"
    exponent = text.partition("e")[2]
    if not exponent or not _LEAST <= int(exponent) < _MOST:
        return text.replace("e", "E") if exponent else text
    return format(Decimal(text), "f")


def moment(value: date | datetime | time, number_format: str) -> str:
    """Return a date or time in ISO 8601, with as many parts as its format shows: 2024-05 for May-24."""
    signs = _QUOTED.sub("", _SECTION.split(number_format)[0]).lower()
    has_day, has_year = "d" in signs, "y" in signs
    is_timed = _TIME_OF_DAY.search(signs) is not None
    clock = value if isinstance(value, time) else value.time() if isinstance(value, datetime) else time()
    clock_text = clock.isoformat("seconds" if clock.second else "minutes")
    if isinstance(value, time) or (is_timed and not (has_day or has_year)):
        return clock_text
    day = value.isoformat()[:10]
    if is_timed:
        return f"{day} {clock_text}" if clock != time() else day
    return day if has_day or not has_year else day[:7] if "m" in signs else day[:4]


def duration(value: timedelta) -> str:
    """Return hours, minutes and seconds."""
    seconds = round(value.total_seconds())
    minutes, rest = divmod(abs(seconds), 60)
    return f"{'-' if seconds < 0 else ''}{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _section_for(value: float, number_format: str) -> tuple[str, bool]:
    """Return the part of a format that a number has, and whether it says itself that it is negative."""
    sections = _SECTION.split(number_format)[:3]
    conditions = list(map(_CONDITION.search, sections))
    for section, condition in zip(sections, conditions, strict=True):
        if condition and _COMPARE[condition[1]](value, float(condition[2])):
            return section, False
    if any(conditions):
        return sections[-1], False
    if value < 0 and len(sections) > 1:
        return sections[1], True
    return sections[2 if value == 0 and len(sections) > 2 else 0], False


def _formatted(value: float, section: str) -> str:
    pieces = list(_PIECE.finditer(section))
    signs = [match[6] for match in pieces if match[6]]
    is_percent = any(match[8] == "%" for match in pieces)
    number = Decimal(repr(float(value))) * (100 if is_percent else 1)
    fraction = _FRACTION.search(_QUOTED.sub("", section))
    exponent = next((match[7] for match in pieces if match[7]), "")
    if fraction:
        groups = [digits := _as_fraction(number, fraction)]
    elif exponent:
        groups = [digits := _as_power(number, "".join(signs), exponent)]
    else:
        groups = _groups(digits := _as_decimal(number, "".join(signs)), signs)
    texts: list[str] = []
    for match in pieces:
        text, literal, width, bracket, general, sign, power, other = match.groups()
        if general is not None:
            texts.append(plain(float(number)))
        elif sign is not None or (fraction and other == "/"):
            texts.append(groups.pop(0) if groups else "")
        elif bracket is not None:
            texts += _CURRENCY.findall(bracket)
        elif power is None and width is None and not (fraction and other and other.isdigit()):
            texts.append(text or literal or other or "")
    joined = " ".join("".join(texts).split())
    # A minus stands before the text before the number: -$5.
    return f"-{joined.replace('-', '', 1)}" if digits.startswith("-") and not joined.startswith("-") else joined


def _groups(digits: str, signs: list[str]) -> list[str]:
    """Return the digits of a number for each group of signs: 555, 1234 for 000-0000."""
    if len(signs) < 2 or "." in "".join(signs) or "," in "".join(signs):
        return [digits]
    groups: list[str] = []
    for sign in reversed(signs[1:]):
        digits, group = digits[: -len(sign)], digits[-len(sign) :]
        groups.insert(0, group)
    return [digits, *groups]


def _as_decimal(number: Decimal, pattern: str) -> str:
    whole, point, decimals = pattern.partition(".")
    # Commas at the end are thousands that are left out.
    scale = len(pattern) - len(pattern.rstrip(",")) + (len(whole) - len(whole.rstrip(",")) if point else 0)
    number /= Decimal(1000) ** scale
    decimals = re.sub("[^0#?]", "", decimals)
    rounded = number.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    if not rounded and "0" not in pattern:
        # A nought that a format leaves out: the "-" of accounts.
        return ""
    text = format(abs(rounded), "f")
    units, _, rest = text.partition(".")
    shortest = len(decimals.rstrip("#?"))
    rest = rest[:shortest] + rest[shortest:].rstrip("0")
    least = whole.count("0")
    units = units.lstrip("0").rjust(least, "0") if least else units
    if "," in whole.rstrip(","):
        units = f"{int(units or 0):,}".rjust(least, "0")
    sign = "-" if rounded < 0 else ""
    return f"{sign}{units}.{rest}" if rest else sign + units


def _as_power(number: Decimal, pattern: str, exponent: str) -> str:
    # The power of ten is a multiple of the digits before the point: 12.3E+3 for ##0.0E+0.
    digits = max(1, len(re.sub("[^0#?]", "", pattern.partition(".")[0])))
    power = number.adjusted() // digits * digits if number else 0
    mantissa = _as_decimal(number.scaleb(-power), pattern.replace(",", ""))
    if number and Decimal(mantissa).adjusted() >= digits:
        # It was rounded up.
        power += digits
        mantissa = _as_decimal(number.scaleb(-power), pattern.replace(",", ""))
    sign = "-" if power < 0 else exponent[1].replace("-", "")
    return f"{mantissa}E{sign}{str(abs(power)).rjust(len(exponent) - 2, '0')}"


def _as_fraction(number: Decimal, fraction: re.Match[str]) -> str:
    whole, _, below = fraction.groups()
    exact = Fraction(abs(number))
    units = int(exact) if whole else 0
    rest = exact - units
    if below.isdigit() and int(below):
        part = (round(rest * int(below)), int(below))
    else:
        near = rest.limit_denominator(10 ** min(len(below), 5) - 1)
        part = near.numerator, near.denominator
    if part[0] == part[1] and whole:
        units, part = units + 1, (0, 1)
    texts = [str(units) if units or not part[0] else "", f"{part[0]}/{part[1]}" if part[0] else ""]
    return ("-" if number < 0 else "") + " ".join(filter(None, texts))
