"""What a site's robots.txt allows (RFC 9309): the longest rule that fits decides, `*` and `$` included.

Python's own parser takes the first rule that fits and reads `*` as a letter, so that sites are misread in both ways.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote, unquote

MAX_ROBOTS_BYTES = 512 * 1024
"""How much of a file is read; the standard asks for 500 KiB at least."""
_MAX_RULES = 10_000
_MAX_PATTERN_CHARACTERS = 2048


@dataclass(frozen=True, slots=True)
class RobotRule:
    """One line of a group.

    Attributes:
        pattern: Path pattern.
        allows: Whether it allows.
    """

    pattern: str
    allows: bool

    def fits(self, path: str) -> bool:
        """Tell whether a path is meant.

        Args:
            path: Path with query, normalised as `normal_path` does.

        Returns:
            True if the pattern fits its beginning (or all of it, where it ends with `$`).
        """
        is_whole = self.pattern.endswith("$")
        first, *others = (self.pattern[:-1] if is_whole else self.pattern).split("*")
        if not path.startswith(first):
            return False
        if not others:
            return not is_whole or path == first
        last = others.pop() if is_whole else ""
        place = len(first)
        # The leftmost place of each part leaves most room for those after it.
        for part in others:
            found = path.find(part, place)
            if found < 0:
                return False
            place = found + len(part)
        return path.endswith(last) and len(path) - len(last) >= place


@dataclass(frozen=True, slots=True)
class RobotRules:
    """What a robots.txt says to one robot.

    Attributes:
        rules: Lines of its group.
        delay_seconds: Time that it wants between two requests; 0 where it does not say.
    """

    rules: tuple[RobotRule, ...] = ()
    delay_seconds: float = 0.0

    def allows(self, path: str) -> bool:
        """Tell whether a path may be fetched.

        Args:
            path: Path with query.

        Returns:
            What the longest fitting rule says; allowed where none fits, or where two of a length differ.
        """
        path = normal_path(path)
        if path == "/robots.txt":
            return True
        best = max(((len(rule.pattern), rule.allows) for rule in self.rules if rule.fits(path)), default=(0, True))
        return best[1]


def normal_path(path: str) -> str:
    """Write a path in one way, whatever of it is escaped.

    Args:
        path: Path with query, or a pattern.

    Returns:
        The same with octets outside of ASCII and reserved ones escaped alike.
    """
    return quote(unquote(path, errors="surrogateescape"), safe="/?&=*$:@!,;+'()~%", errors="surrogateescape")


def parse_robots(text: str, robot: str) -> RobotRules:
    """Read a robots.txt.

    Args:
        text: Its text.
        robot: Name of the robot, lower case.

    Returns:
        The rules of the groups that name the robot, else of the groups for all.
    """
    groups: dict[str, list[RobotRule]] = {}
    delays: dict[str, float] = {}
    agents: list[str] = []
    in_rules = False
    count = 0
    for field, value in _lines(text):
        if field == "user-agent":
            if in_rules:
                agents, in_rules = [], False
            name = value.lower().split("/", 1)[0].strip()
            agents.append(name)
            groups.setdefault(name, [])
        elif field in ("allow", "disallow", "crawl-delay"):
            in_rules = True
            for agent in agents:
                if field == "crawl-delay":
                    delays[agent] = _seconds(value)
                elif value and count < _MAX_RULES and len(value) <= _MAX_PATTERN_CHARACTERS:
                    count += 1
                    groups[agent].append(RobotRule(normal_path(value), field == "allow"))
    name = robot if robot in groups else "*"
    return RobotRules(tuple(groups.get(name, ())), delays.get(name, 0.0))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.lstrip("\ufeff").splitlines():
        field, separator, value = line.split("#", 1)[0].partition(":")
        if separator:
            yield field.strip().lower(), value.strip()


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) else 0.0
