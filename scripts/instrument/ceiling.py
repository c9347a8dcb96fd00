"""What an area's tests leave unreached, held below what was recorded."""

from __future__ import annotations

from instrument import record
from instrument.measure import Measured, outcomes, own
from instrument.record import Row


def held(measured: Measured, *, write: bool) -> bool:
    """Prints what is unreached without a reason; whether that is no more than the ceiling."""
    area = measured.copy.area
    op = area.name
    mine = own(measured.places, area)
    numbers = {place.id for place in mine}
    reasons = record.unreachable()
    missing = [at for at in measured.unreached() if at.place.id in numbers]
    bare = [at for at in missing if reasons.of(at) is None]
    for at in bare:
        print(f"  {at.text()}")
    total = sum(len(outcomes(place)) for place in mine)
    explained = len(missing) - len(bare)
    print(f"{op}: {len(missing)} of {total} outcomes unreached, {explained} with a reason", flush=True)
    stale = reasons.unused(f"{area.folder}/")
    for line in stale:
        print(f"  a reason that is not needed: {line}")
    row = record.read().get(op, Row(op))
    if write:
        row.branches, row.unreached, row.explained = total, len(missing), explained
        row.seconds = max(row.seconds, measured.seconds())  # less where the compiler's cache had the objects
        row.sources = record.sources(area, measured.copy.build.included(area))
        record.write(row)
        return not stale
    ceiling = row.unreached - row.explained
    if row.branches and len(bare) > ceiling:
        print(f"{op}: more than the ceiling of {ceiling}: reach them by a case, or say why none can")
        return False
    return not stale
