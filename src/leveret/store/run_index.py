"""Where each live message of one lane of one queue lies in the journal.  Hot path.

Theory of operation. A publisher's run is one record of the journal, so the messages of a lane come in *runs*:
consecutive sequences that lie one after the other in one record. Runs are kept as numbers in packed columns, 32 bytes
each, since ten million of them must fit beside the broker.

    blocks      [ block ][ block ][ block ]        found by bisecting ``firsts``
    a block     sequences  [ .  .  . 17 20 31 ]    five columns, runs in order of sequence
                places     [ .  .  .  a  a  b ]    segment and offset in one number
                             dead |  ^ start

Rules of this file:

- Every block has a live run, except that an empty index may keep one empty block, so that a queue that fills and
  empties all day makes no new one each time. So the last run of the last block is live while anything is.
- What is taken at the front of a block only moves ``start``; the columns are shifted when more is dead than alive.
  Elsewhere the columns are cut at once, which costs little as a block has few runs.
- ``firsts[n]`` is at most the first sequence of block n and above every sequence of the block before. It stays as it is
  when the front of the block goes.
- The size of each message is not known, only that of the run: a cut shares it in proportion, as ``size * part //
  number`` counted from the front of the run, so that nothing is lost or counted twice.
- A snapshot (``freeze``) shares the blocks with the index: a frozen block is copied before it changes (``_thawed``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from leveret.store.run_block import OFFSET_BITS, OFFSETS, Block, Run

BLOCK_RUNS = 1024
FEW_RUNS = 128  # a block with fewer may become part of its neighbour
LOOK_EVERY = 31  # a mask: every 32nd step of ``start`` looks whether to shift the columns


class RunIndex:
    """The live messages of a lane by sequence. ``bytes`` is the size of all of them."""

    __slots__ = ("_blocks", "_count", "_firsts", "bytes")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.bytes = 0
        self._count = 0
        self._blocks: list[Block] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        """Live messages, not runs."""
        return self._count

    def __iter__(self) -> Iterator[Run]:
        for block in self._blocks:
            yield from block.runs(block.start, len(block.sequences))

    def freeze(self) -> tuple[Block, ...]:
        """The blocks as they are now; they will not change."""
        for block in self._blocks:
            block.is_frozen = True
        return tuple(self._blocks)

    def _thawed(self, at: int) -> Block:
        """The block, as one that may change."""
        block = self._blocks[at]
        if block.is_frozen:
            block = self._blocks[at] = block.copy()
        return block

    @classmethod
    def of(cls, blocks: list[Block], count: int, size: int) -> RunIndex:
        """From the blocks of a snapshot: of so many messages, of so many bytes."""
        index = cls()
        index._blocks = blocks
        index._firsts = [block.sequences[block.start] for block in blocks]
        index._count, index.bytes = count, size
        return index

    def first(self) -> int | None:
        """Sequence of the first live message."""
        return self._blocks[0].sequences[self._blocks[0].start] if self._count else None

    def totals(self) -> dict[int, tuple[int, int]]:
        """For each segment the number of live messages there, and their bytes. Far cheaper than looking at each run."""
        found: dict[int, tuple[int, int]] = {}
        for block in self._blocks:
            start = block.start
            for place, number, size in zip(
                block.places[start:], block.numbers[start:], block.sizes[start:], strict=True
            ):
                segment = place >> OFFSET_BITS
                before = found.get(segment, (0, 0))
                found[segment] = (before[0] + number, before[1] + size)
        return found

    def runs_in(self, segments: frozenset[int]) -> list[Run]:
        """Runs that lie in one of these segments. Most blocks have none, and no objects are made of their runs."""
        found: list[Run] = []
        for block in self._blocks if segments else ():
            if not segments.isdisjoint([place >> OFFSET_BITS for place in block.places[block.start :]]):
                runs = block.runs(block.start, len(block.sequences))
                found += [run for run in runs if run.segment in segments]
        return found

    def covers(self, sequence: int, number: int) -> bool:
        """Whether nothing outside of the range is live."""
        if not self._count:
            return True
        block = self._blocks[-1]
        last = block.sequences[-1] + block.numbers[-1]
        return sequence <= self._blocks[0].sequences[self._blocks[0].start] and last <= sequence + number

    # ---- taking in

    def append(self, sequence: int, number: int, segment: int, offset: int, skip: int, size: int) -> None:
        """Messages above all that are live. A run that goes on where the last one ends becomes part of it."""
        place = segment << OFFSET_BITS | offset
        if number < 1:
            raise ValueError(f"a run has messages, not {number}")
        if self._count:
            block = self._blocks[-1]
            last = block.numbers[-1]
            end = block.sequences[-1] + last
            if sequence < end:
                raise ValueError(f"a run from {sequence} cannot follow messages up to {end - 1}")
            if sequence == end and block.places[-1] == place and block.skips[-1] + last == skip:
                block = self._thawed(-1)
                block.numbers[-1] = last + number
                block.sizes[-1] += size
                self._count += number
                self.bytes += size
                return
            if len(block.places) >= BLOCK_RUNS:
                block = self._open(sequence)
            elif block.is_frozen:
                block = self._thawed(-1)
        else:
            block = self._thawed(0) if self._blocks else self._open(sequence)
            self._firsts[0] = sequence
        block.places.append(place)  # before the others, as it refuses a segment that does not fit
        block.sequences.append(sequence)
        block.skips.append(skip)
        block.numbers.append(number)
        block.sizes.append(size)
        self._count += number
        self.bytes += size

    def _open(self, sequence: int) -> Block:
        block = Block()
        self._blocks.append(block)
        self._firsts.append(sequence)
        return block

    # ---- taking out

    def take(self, sequence: int, number: int) -> list[Run]:
        """Remove whatever is live in [sequence, sequence + number); the pieces in order."""
        if not self._count or number < 1:
            return []
        firsts = self._firsts
        at = 0 if len(firsts) == 1 or sequence < firsts[1] else bisect_right(firsts, sequence) - 1
        block = self._blocks[at]
        if block.is_frozen:
            block = self._thawed(at)
        sequences = block.sequences
        run = start = block.start
        if sequences[run] != sequence:
            run = bisect_left(sequences, sequence, start)
            if run == len(sequences) or sequences[run] != sequence:
                return self._take(at, sequence, sequence + number)
        held = block.numbers[run]
        if held < number:
            return self._take(at, sequence, sequence + number)
        place = block.places[run]
        skip = block.skips[run]
        size = block.sizes[run]
        self._count -= number
        if held > number:
            whole = size
            size = whole * number // held
            sequences[run] = sequence + number
            block.skips[run] = skip + number
            block.numbers[run] = held - number
            block.sizes[run] = whole - size
        elif run == start:
            start += 1
            block.start = start
            if not start & LOOK_EVERY or (start == len(sequences) and self._count):
                self._tidy(at, at + 1)
        else:
            del sequences[run], block.places[run], block.skips[run], block.numbers[run], block.sizes[run]
            if len(sequences) - start < FEW_RUNS:
                self._settle(at)
        self.bytes -= size
        return [tuple.__new__(Run, (sequence, number, place >> OFFSET_BITS, place & OFFSETS, skip, size))]

    def _take(self, at: int, sequence: int, end: int) -> list[Run]:
        """The same for any place and any number of runs, from block ``at`` on."""
        firsts = self._firsts
        after = at + 1
        if after < len(firsts) and firsts[after] < end:
            after = bisect_left(firsts, end, after)
        taken: list[Run] = []
        for place in range(at, after):
            block = self._thawed(place)
            first, last = block.overlap(sequence, end)
            if first < last:
                taken += block.pieces(first, last, sequence, end)
                block.remove(first, last, sequence, end)
        for run in taken:
            self._count -= run[1]
            self.bytes -= run[5]
        # Most often there is one block, and nothing to do about it.
        if after - at > 1 or not FEW_RUNS <= len(block.sequences) - block.start <= BLOCK_RUNS:
            self._tidy(at, after)
        return taken

    def _tidy(self, first: int, last: int) -> None:
        """Put the blocks [first, last) in order, from which one stretch of sequences was taken."""
        blocks = self._blocks
        # All between the first and the last of them is gone; of these two something may be left.
        gone = first
        while gone < last and len(blocks[gone]):
            gone += 1
        stays = gone
        while stays < last and not len(blocks[stays]):
            stays += 1
        if not self._count:
            gone += 1
        if gone < stays:
            del blocks[gone:stays]
            del self._firsts[gone:stays]
            last -= stays - gone
        for at in range(last - 1, first - 1, -1):
            self._settle(at)

    def _settle(self, at: int) -> None:
        """Keep a block from growing too large, and many that hold next to nothing from staying."""
        blocks = self._blocks
        block = self._thawed(at)
        live = len(block)
        if live > BLOCK_RUNS:
            blocks.insert(at + 1, block.split())
            self._firsts.insert(at + 1, blocks[at + 1].sequences[0])
        elif block.start > LOOK_EVERY + live:  # so that shifting costs less than what led to it
            block.compact()
        if live < FEW_RUNS and len(blocks) > 1:
            before = max(at - 1, 0)
            after = before + 1
            if len(blocks[before]) + len(blocks[after]) <= BLOCK_RUNS // 2:
                self._thawed(before).take_over(blocks[after])
                del blocks[after], self._firsts[after]

    # ---- looking

    def live(self, sequence: int, number: int) -> list[Run]:
        """The pieces that ``take`` would remove."""
        found: list[Run] = []
        if number < 1:
            return found
        end = sequence + number
        at = self._block_of(sequence)
        for block in self._blocks[at : bisect_left(self._firsts, end, at)]:
            first, last = block.overlap(sequence, end)
            if first < last:
                found += block.pieces(first, last, sequence, end)
        return found

    def live_stop(self, sequence: int, number: int) -> int:
        """The sequence behind the last live message in [sequence, sequence + number); 0 if none is live."""
        if number < 1:
            return 0
        end = sequence + number
        for block in reversed(self._blocks[self._block_of(sequence) : bisect_left(self._firsts, end)]):
            first, last = block.overlap(sequence, end)
            if first < last:
                piece = block.piece(last - 1, sequence, end)
                return piece.sequence + piece.number
        return 0

    def _block_of(self, sequence: int) -> int:
        return max(bisect_right(self._firsts, sequence) - 1, 0)

    def read(self, sequence: int, most_messages: int, most_bytes: int) -> list[Run]:
        """Pieces from ``sequence`` on within both limits, the last one perhaps cut; one message at least, if any."""
        found: list[Run] = []
        for block, at in self._runs_from(sequence):
            first = block.sequences[at]
            number = block.numbers[at]
            size = block.sizes[at]
            skipped = max(sequence - first, 0)
            reach = skipped + most_messages
            if size:
                # The largest part of the run of which size * part // number stays within the limit.
                limit = most_bytes + size * skipped // number
                reach = min(reach, ((limit + 1) * number - 1) // size)
            if reach <= skipped:
                if found:
                    break
                reach = skipped + 1
            piece = block.piece(at, sequence, first + reach)
            found.append(piece)
            most_messages -= piece.number
            most_bytes -= piece.size
            if reach < number or most_bytes < 0:  # or what has no size would follow a first one that is too large
                break
        return found

    def _runs_from(self, sequence: int) -> Iterator[tuple[Block, int]]:
        for block in self._blocks[self._block_of(sequence) :]:
            for at in range(block.overlap(sequence, sequence)[0], len(block.sequences)):
                yield block, at

    def move(self, sequence: int, number: int, segment: int, offset: int, skip: int) -> None:
        """These messages, all live and part of one run, now lie at the new place."""
        end = sequence + number
        index = self._block_of(sequence)
        block = self._thawed(index) if self._blocks else Block()
        at, last = block.overlap(sequence, end)
        piece = block.piece(at, sequence, end) if last - at == 1 else None
        if not piece or piece.number != number or number < 1:
            raise ValueError(f"the {number} messages from {sequence} are not one live run")
        place = segment << OFFSET_BITS | offset
        if block.numbers[at] == number:
            block.places[at] = place
            block.skips[at] = skip
        else:
            has_left = block.sequences[at] < sequence
            block.remove(at, last, sequence, end)
            at += has_left
            block.insert(at, (sequence, place, skip, number, piece.size))
        if at > block.start:
            block.join_before(at)
        self._settle(index)
