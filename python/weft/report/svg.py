"""Pictures as SVG: a few shapes, laid out by whoever draws. Legible on a phone, so no wider than WIDTH."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

Point = tuple[float, float]
WIDTH = 520
INK, FAINT, GRID, PAPER = "#1f2933", "#7b8794", "#e4e7eb", "#ffffff"
# Told apart with any kind of colour vision, and light enough for dark text on them.
COLORS = ("#56b4e9", "#e69f00", "#6fcf97", "#f0e442", "#cc79a7", "#9aa5b1", "#d55e00", "#8fb8f0")


class Picture:
    """Shapes in the order in which they are drawn."""

    def __init__(self, title: str, width: float = WIDTH) -> None:
        self.title, self.width, self.height = title, width, 0.0
        self._shapes: list[str] = []

    def _add(self, shape: str, bottom: float) -> None:
        self._shapes.append(shape)
        self.height = max(self.height, bottom)

    def text(
        self,
        at: Point,
        text: str,
        size: float = 12,
        *,
        color: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        """Letters that stand on a point."""
        weight = ' font-weight="bold"' if bold else ""
        self._add(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" font-size="{size:g}" fill="{color}" text-anchor="{anchor}"'
            f"{weight}>{escape(text)}</text>",
            at[1] + size / 2,
        )

    def box(self, corner: Point, size: Point, fill: str, line: str = PAPER) -> None:
        (x, y), (width, height) = corner, size
        self._add(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="{line}"/>',
            y + height,
        )

    def line(self, begin: Point, end: Point, color: str = GRID, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        (x1, y1), (x2, y2) = begin, end
        self._add(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"{dash}/>',
            max(y1, y2),
        )

    def dot(self, at: Point, fill: str, radius: float = 4) -> None:
        self._add(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}" fill="{fill}"/>', at[1] + radius)

    def render(self) -> str:
        width, height = f"{self.width:g}", f"{self.height + 10:.0f}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="system-ui, sans-serif" role="img" aria-label={quoteattr(self.title)}>'
        )
        shapes = [
            head,
            f"<title>{escape(self.title)}</title>",
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
        ]
        return "\n".join([*shapes, *self._shapes, "</svg>"]) + "\n"
